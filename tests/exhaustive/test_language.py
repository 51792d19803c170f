"""The docstrings, comments and messages of the package are plain technical English."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import parsed, statements

PACKAGE = Path(__file__).parents[2] / "airflow_kafka_groups"
OPENING = re.compile(r"(Be|Give|Say|Tell|Know|Hold|Do)\b")
WORDS = re.compile(
    r"\b(anew|likewise|in the midst|thus|but for|by hand|at hand|as told|(is|are|be|was|were) told|a text|texts"
    r"|the whole of|gone without|lets? alone|for ever|said of)\b",
    re.IGNORECASE,
)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

MODULES = sorted(PACKAGE.rglob("*.py"))


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in (tree, *statements(tree)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)) is not None:
            yield getattr(node, "name", "the module"), text


def comments_and_strings(path: Path) -> Iterator[tuple[int, str]]:
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
                yield token.start[0], " ".join(token.string.split())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_language_is_plain(path: Path) -> None:
    source = path.read_text()
    opened = [f"{name}: {text[:60]}" for name, text in docstrings(parsed(path)) if OPENING.match(text)]
    assert not opened, (
        "a docstring is a noun phrase (classes, modules, properties) or begins with a verb such as Return"
    )
    if not WORDS.search(" ".join(source.split())):
        return  # nor does any comment or string of it, which take longer to find
    words = [f"line {line}: {found[0]!r}" for line, text in comments_and_strings(path) if (found := WORDS.search(text))]
    assert not words, "use the usual word: recreated, complete, reported, manually …"
