import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.observe.patterns import (
    DEFAULT_PROTECTED,
    GroupFilter,
    check_group_ids,
    check_patterns,
    keeping_expressions,
)
from tests.pages import DOCS


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*", "anything at all\nwith lines", None),
        ("team-a.*", "team-a.x", "team-b.x"),
        ("app-?", "app-1", "app-12"),
        ("[ab]*", "b", "c"),
        ("Case", "Case", "case"),
        ("re:app-\\d+", "app-12", "app-12x"),
        ("re:a|ab", "ab", "abc"),
        ("re:", None, None),
        ("re:.*", "", "\n"),
    ],
)
def test_patterns(pattern: str, matching: str | None, other: str | None) -> None:
    if matching is None:
        with pytest.raises(ConfigurationError):
            GroupFilter((pattern,))
        return
    groups = GroupFilter((pattern,))
    assert groups.selects(matching)
    assert other is None or not groups.selects(other)


def test_the_group_with_the_empty_id_is_one_of_all_groups() -> None:
    """No pattern is every group, and a listing that leaves one out would not be of all."""
    assert GroupFilter().selects("")
    assert GroupFilter(("*",)).refused(["", "a"]) == {}
    assert not GroupFilter(("**", "a*")).selects("")


@pytest.mark.safety
def test_a_deletion_takes_the_empty_group_id_only_where_a_pattern_names_it() -> None:
    assert not PlanPolicy().groups.selects("")
    assert not PlanPolicy(include=("*", "a*"), protected=()).groups.selects("")
    assert PlanPolicy(include=("re:^$",)).groups.selects("")
    assert PlanPolicy(protected=()).groups.selects("a\n")


@pytest.mark.safety
def test_who_keeps_all_groups_keeps_the_one_with_the_empty_id() -> None:
    assert GroupFilter(protected=("*",)).protects("")
    assert GroupFilter(exclude=("*",)).why_not("") == "excluded by the pattern '*'"
    assert not GroupFilter(protected=("a*",)).protects("")
    assert any(re.fullmatch(each, "") for each in keeping_expressions("", ["*"]))


@pytest.mark.safety
@pytest.mark.parametrize(
    ("pattern", "group_id"),
    [
        ("job[1]", "job[1]"),
        ("re:ports", "re:ports"),
        ("caf\u00e9-*", "cafe\u0301-orders"),
        ("cafe\u0301-*", "caf\u00e9-orders"),
        ("cafe\u0301-*", "cafe\u0301-orders"),
        ("re:cafe\u0301.*", "caf\u00e9"),
    ],
)
def test_a_pattern_that_keeps_is_taken_widely(pattern: str, group_id: str) -> None:
    """Whoever writes a group's own name into ``exclude`` means that group, however its letters are encoded."""
    assert not GroupFilter(exclude=(pattern,)).selects(group_id)
    assert not GroupFilter(protected=(pattern,)).selects(group_id)
    assert GroupFilter(protected=(pattern,)).protects(group_id)
    assert GroupFilter(exclude=(pattern,), protected=(pattern,)).selects("another")


_PATTERNS = ("*", "a*", "?", "job[1]", "é*", "e\u0301*", "re:a|b", "re:.*", "b")
_IDS = st.sampled_from(["\u00e9", "e\u0301x"]) | st.text("ab\u00e9\u03011[]job \n", max_size=6)
_FILTERS = st.lists(st.sampled_from(_PATTERNS), max_size=3).map(tuple)


@pytest.mark.safety
@example(("*",), ("job[1]",), (), [])
@given(_FILTERS, _FILTERS, _FILTERS, st.lists(_IDS, max_size=8))
def test_many_groups_are_refused_for_the_same_reasons_as_each_of_them(
    include: tuple[str, ...], exclude: tuple[str, ...], protected: tuple[str, ...], group_ids: list[str]
) -> None:
    group_ids += ["", "job[1]", "job1", "a"]
    groups = GroupFilter(include, exclude, protected)
    one_by_one = {group_id: groups.why_not(group_id) for group_id in group_ids}
    assert groups.refused(group_ids) == {id_: reason for id_, reason in one_by_one.items() if reason is not None}


@example("[]-a]", "]")
@example("[!]a-]x", "bx")
@example("[z-a]*", "z")
@example("[!z-a]", "z")
@example("[[:alpha:]", "[")
@given(st.text("ab-*?[]!^\\:&|~.\n\u00e9", max_size=8), st.text("ab-[]!^\\:&|~.\n\u00e9", min_size=1, max_size=5))
def test_a_glob_matches_what_a_shell_glob_does(glob: str, group_id: str) -> None:
    if glob and glob == glob.strip():
        assert GroupFilter((glob,)).selects(group_id) is fnmatchcase(group_id, glob)


@pytest.mark.parametrize("pattern", ["re:(a+)+b", "re:(a|a)*b", "re:(a*)*(a*)*b", "*a*a*a*a*a*a*a*a*a*b"])
def test_no_pattern_takes_longer_than_its_id_is_long(pattern: str) -> None:
    """Python's ``re`` took 28 seconds for an id of 32 letters, and as long again for each letter more."""
    group_id = "a" * 32_000
    groups = GroupFilter((pattern,), protected=(pattern,))
    assert not groups.selects(group_id)
    assert (groups.protects(group_id), groups.protects(f"{group_id}b")) == (False, True)


def test_a_regular_expression_means_ascii_by_its_classes() -> None:
    groups = GroupFilter((r"re:\d+",))
    assert (groups.selects("12"), groups.selects("\u0661")) == (True, False)
    assert GroupFilter(("re:(?i)\u00c9",)).selects("\u00e9")


def test_an_include_is_not_taken_widely() -> None:
    assert not GroupFilter(("job[1]",)).selects("job[1]")
    assert not GroupFilter(("caf\u00e9",)).selects("cafe\u0301")


@pytest.mark.parametrize("pattern", ["orders-* ", " orders-*", "orders\n", "\torders", "a\u00a0", " "])
def test_blanks_around_a_glob_are_refused(pattern: str) -> None:
    """They come with copy and paste, and an exclude with one keeps nothing."""
    with pytest.raises(ConfigurationError, match=r"^exclude.*whitespace"):
        check_patterns("exclude", [pattern])
    assert GroupFilter((f"re:{re.escape(pattern)}",)).selects(pattern)


def test_exclude_and_protected_win_over_include_and_say_why() -> None:
    groups = GroupFilter(("*",), ("old-*",), ("__*",))
    assert groups.why_not("new") is None
    assert groups.why_not("old-1") == "excluded by the pattern 'old-*'"
    assert groups.why_not("__x") == "protected by the pattern '__*'"
    assert GroupFilter(("a*",)).why_not("b") == "matches no include pattern"
    assert not GroupFilter(()).selects("a")


@pytest.mark.parametrize(
    "group_id",
    [
        "connect-s3-sink",
        "__internal_google_managed_kafka_prober_cg",
        "_confluent-ksql-default_query_CTAS_X_0",
        "_confluent-controlcenter-7-4-0-1",
        "_schemas_reader",
        "schema-registry",
        "mm2-offsets",
        "amazon.msk.canary.group.broker-1",
        "__amazon_msk_canary",
        "strimzi-topic-operator",
    ],
)
def test_platform_groups_are_protected_by_default(group_id: str) -> None:
    assert not GroupFilter(protected=DEFAULT_PROTECTED).selects(group_id)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("team-*", "must be a list"),
        (7, "must be a list"),
        ([""], "empty pattern"),
        (["re:"], "empty pattern"),
        (["re:("], "correct the regular expression"),
        ([b"x"], "must be a string"),
        ([None], "must be a string"),
    ],
)
@pytest.mark.parametrize("name", ["include", "exclude", "protected"])
def test_a_pattern_that_cannot_be_read_names_its_field(name: str, patterns: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}.*{message}"):
        check_patterns(name, patterns)  # type: ignore[arg-type]


def test_explicit_ids_keep_their_order_and_lose_duplicates() -> None:
    assert check_group_ids(iter(["b", "a", "b", ""])) == ["b", "a", ""]


@pytest.mark.parametrize("ids", [[], "g1", ["g1", 2], [None], 5, None])
def test_what_is_no_list_of_ids_is_refused(ids: object) -> None:
    with pytest.raises(ConfigurationError, match="group_ids"):
        check_group_ids(ids)  # type: ignore[arg-type]


def test_the_guide_lists_the_patterns_of_the_platform() -> None:
    page = (DOCS / "howto/clean-up.md").read_text().partition("## Groups of the platform\n")[2]
    paragraph = page.partition("\n\nThe argument")[0].rpartition("\n\n")[2]
    assert tuple(re.findall(r"`([^`]+)`", paragraph)) == DEFAULT_PROTECTED


@pytest.mark.safety
@pytest.mark.parametrize(
    ("pattern", "group_id"),
    [
        (r"re:team-\w+", "team-é"),
        (r"re:[\w.-]+-prod", "größe.x-prod"),
        (r"re:[]\w]+", "é]"),
        (r"re:[\w-.]+", "é-.a"),
        (r"re:[\s-.]+", "\u00a0-."),
        (r"re:[\d-z]+", "٣-z"),
        (r"re:v\d+", "v٣"),
        (r"re:a\sb", "a\u00a0b"),
        (r"re:a\s[\s]b", "a\x0b\u2028b"),
    ],
)
def test_a_pattern_that_keeps_groups_knows_the_letters_of_all_alphabets(pattern: str, group_id: str) -> None:
    assert GroupFilter(protected=(pattern,)).protects(group_id)
    assert not GroupFilter(exclude=(pattern,)).selects(group_id)
    assert not GroupFilter((pattern,)).selects(group_id), "one that selects groups means ASCII"


def test_what_only_looks_like_a_class_of_letters_is_left_alone() -> None:
    for pattern in (r"re:\\w", r"re:[\\w]", r"re:\Q\w\E", r"re:[^\w]"):
        assert not GroupFilter(protected=(pattern,)).protects("é") or pattern == r"re:[^\w]"
