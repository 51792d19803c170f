"""The pages are plain technical English: they have none of the words that a reader has to translate."""

import re
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, name_of

WORDS = re.compile(
    r"\b(anew|likewise|in the midst|thus|but for|by hand|at hand|without a word|(?:is|are|be|was|were) told"
    r"|a text|texts|a whole|the whole|as a whole|doomed|under way|half way|of one's own|unless told|spelt|misspelt)\b",
    re.IGNORECASE,
)
NOT_PROSE = re.compile(r"<!-- results:.*?<!-- end of results -->|```.*?```|`[^`\n]*`", re.DOTALL)


def prose(page: Path) -> str:
    return NOT_PROSE.sub("", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_uses_the_usual_words(page: Path) -> None:
    found = [match[0] for match in WORDS.finditer(" ".join(prose(page).split()))]
    assert not found, "write: recreated, complete, reported, manually, without an error, in flight …"


def test_code_and_results_are_no_prose() -> None:
    page = ROOT / "docs/core.md"
    assert "asyncio.run" not in prose(page)
    assert "import asyncio" not in prose(page)
    assert "`" not in prose(page)
    assert WORDS.search("It was made anew.")
