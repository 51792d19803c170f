import pytest

from airflow_kafka_groups.kafka import regexes
from airflow_kafka_groups.kafka.regexes import RegexSet, compile_regex


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (r"(?!orders).*", r"invalid perl operator: \(\?!.*no look-around, no back-references"),
        (r".*(?<=x)", "no look-around"),
        (r"(a)\1", r"invalid escape sequence: \\1.*no back-references"),
        (r"(?P<n>a)(?P=n)", "no back-references"),
        (r"a\Z", "correct the regular expression"),
        ("(", "correct the regular expression: missing"),
        ("a{,3}", r"write \{0,3\} for \{,3\}, or \\\{,3\} for these characters"),
        ("a{,}", r"write \{0,\} for \{,\}"),
        ("(((a{100}){100}){100})", "correct the regular expression"),
        ("\ud83d", "half of a character"),
    ],
)
def test_what_re2_does_not_have_or_reads_otherwise_is_refused(
    expression: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=why):
        compile_regex(expression)
    assert capfd.readouterr() == ("", ""), "RE2 logs nothing of its own"


def test_characters_that_only_look_like_a_count_are_taken() -> None:
    assert RegexSet([r"a\{,3}"]).matching("a{,3}") == [0]


class Starved:
    """A set of RE2 whose memory does not suffice at a text: it reports no match, not even of what matches any."""

    def Match(self, text: bytes) -> None:
        return None


@pytest.mark.safety
@pytest.mark.parametrize("starved", ["compiled", "matched", None])
def test_a_set_finds_the_same_whatever_memory_it_has(starved: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns that keep groups would keep nothing."""
    expressions = [f"(?s:.*)a.{{{number}}}" for number in range(40)] + ["orders-[0-9]+", ""]
    texts = ["", "orders-7", "a" * 40, "ab" * 30, "\u00e9a\ud83d" + "\u00e9" * 9, "a\n\n"]
    alone = [[n for n, each in enumerate(expressions) if RegexSet([each]).matching(text)] for text in texts]
    with monkeypatch.context() as patched:
        patched.setattr(regexes, "_MEMORY_EACH", 0)
        patched.setattr(regexes, "_MEMORY", 1 << 14 if starved == "compiled" else 8 << 20)
        found = RegexSet(expressions)
    assert (found._set is None) == (starved == "compiled")
    if starved == "matched":
        found._set = Starved()
    assert [sorted(found.matching(text)) for text in texts] == alone
