"""The package's sources as syntax trees."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a source file, which several tests look through: they leave it as it is."""
    return ast.parse(path.read_text())


def segment(lines: Sequence[bytes], node: ast.expr) -> str:
    """Return the source of an expression, as ``ast.get_source_segment`` does, which splits the module for each.

    :param lines: those of the encoded module.
    """
    assert node.end_lineno is not None
    last = node.end_lineno - 1
    taken = [*lines[node.lineno - 1 : last], lines[last][: node.end_col_offset]]
    taken[0] = taken[0][node.col_offset :]
    return b"\n".join(taken).decode()


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Return all statements, those within others too. Much quicker than ``ast.walk``, which visits every expression."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(node, blocks, ()):
                waiting.append(inner)
                if isinstance(inner, ast.stmt):
                    yield inner
