"""The glossary's ten questions: their files exist, and have the name in them; the terms are in one place."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/glossary.md").read_text()
QUESTIONS = re.findall(r"^\| (.+\?) \| `(\S+)` \| `(\w+)` \|$", PAGE, re.MULTILINE)
TERMS = re.findall(r"^- \*\*(.+?)\*\*", PAGE, re.MULTILINE)


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) >= 10


@pytest.mark.parametrize(("question", "path", "name"), QUESTIONS, ids=[question for question, *_ in QUESTIONS])
def test_the_file_that_answers_has_the_name_in_it(question: str, path: str, name: str) -> None:
    definition = rf"^\s*(?:async )?(?:def|class) {name}\b|^{name}\b.*="
    assert re.search(definition, (ROOT / path).read_text(), re.MULTILINE), question


def test_each_term_is_explained_once() -> None:
    assert len(TERMS) > 40
    assert len(TERMS) == len(set(TERMS))


@pytest.mark.parametrize(
    "term",
    ["Idle", "Stale", "Verdict", "Snapshot", "Plan", "Digest", "Backup", "Recheck", "Lease", "Outcome", "Unknown"],
)
def test_the_words_of_a_deletion_are_explained(term: str) -> None:
    assert term in TERMS
