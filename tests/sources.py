"""The package's sources as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator


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
