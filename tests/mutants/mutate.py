"""Mutants: small changes of what decides (a comparison, a boolean operator, a negation), one at a time.

A mutant is named by what it changes, not by its line: ``digest`` orders all mutants the same way after code has moved
within its module, so that a sample stays the same mutants until somebody changes them.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.sources import segment

PACKAGE = Path("airflow_kafka_groups")
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of one module.

    :param digest: its place in the order of all mutants.
    :param path: the module's file.
    :param line: where the expression begins.
    :param index: which of the module's places of a change it is, in the order of ``ast.walk``.
    :param code: the expression before the change, and the change.
    """

    digest: str
    path: str
    line: int
    index: int
    code: str


def mutants_of(path: Path, seed: int) -> Iterator[Mutant]:
    """Read a module and return all its mutants."""
    source = path.read_text()
    lines = source.encode().splitlines()
    seen: Counter[str] = Counter()
    for index, (node, part) in enumerate(_places(ast.parse(source))):
        code = f"{' '.join(segment(lines, node).split())} [{_change(node, part)}]"
        seen[code] += 1
        name = f"{seed} {path.as_posix()} {code} {seen[code]}"
        yield Mutant(hashlib.sha256(name.encode()).hexdigest()[:12], path.as_posix(), node.lineno, index, code)


def sample_of(layers: tuple[str, ...], size: int, seed: int) -> list[Mutant]:
    """Return the same mutants whenever the code is the same."""
    modules = (path for layer in layers for path in sorted((PACKAGE / layer).rglob("*.py")))
    return sorted(mutant for path in modules for mutant in mutants_of(path, seed))[:size]


def mutated(source: str, index: int) -> ast.Module:
    """Return a module with one change made."""
    tree = ast.parse(source)
    node, part = list(_places(tree))[index]
    if isinstance(node, ast.Compare):
        node.ops[part] = _OPPOSITE[type(node.ops[part])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op = _Twice()  # ``not not x`` is what ``x`` decides
        tree = _Doubled().visit(tree)
    return ast.fix_missing_locations(tree)


class _Twice(ast.Not):
    """A negation to be taken back."""


class _Doubled(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, _Twice):
            return node
        return ast.copy_location(ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), node.operand)), node)


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from ((node, part) for part, operator in enumerate(node.ops) if type(operator) in _OPPOSITE)
        elif isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            yield node, 0


def _change(node: ast.expr, part: int) -> str:
    if isinstance(node, ast.Compare):
        return f"{type(node.ops[part]).__name__} {part}"
    return type(node.op).__name__ if isinstance(node, ast.BoolOp | ast.UnaryOp) else ""
