"""The picture of the package's layers in docs/design.md, drawn from the imports. ``make layers`` writes it.

Rows are the layers of import-linter's contract. An arrow means "imports"; one that follows from others is left out.
"""

import tomllib
from collections.abc import Iterator, Set
from functools import cache
from itertools import chain
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/layers.svg"
PACKAGE = "airflow_kafka_groups"

_COLUMNS = {"plugins": 0, "sensors": 2, "triggers": 2, "spark": 2, "report": 2, "doctor": 0, "checks": 0, "shown": 2}
_MIDDLE = 1
_WIDTH, _HEIGHT, _STEP_X, _STEP_Y, _MARGIN = 150, 34, 210, 72, 16

Edge = tuple[str, str]


def layers() -> list[list[str]]:
    """Return the layers of the contract, from the top, each with its packages."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["layers"] for contract in contracts if contract["name"] == "imports point down"]
    return [[name.strip() for name in row.replace(":", "|").split("|")] for row in rows]


@cache
def imports() -> frozenset[Edge]:
    """Return which package imports which, directly."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None, exclude_type_checking_imports=True)
    edges = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            one, two = importer.split(".")[1:2], imported.split(".")[1:2]
            if one and two and one != two:
                edges.add((one[0], two[0]))
    return frozenset(edges)


def reduced(edges: Set[Edge]) -> set[Edge]:
    """Leave out the edges that follow from others."""

    @cache
    def reached(name: str) -> set[str]:
        nearer = {two for one, two in edges if one == name}
        return nearer.union(*(reached(two) for two in nearer))

    return {(one, two) for one, two in edges if not any(two in reached(via) for start, via in edges if start == one)}


def draw() -> str:
    """Return the picture as SVG."""
    rows = layers()
    places = {name: (_COLUMNS.get(name, _MIDDLE), number) for number, row in enumerate(rows) for name in row}
    edges = sorted(edge for edge in reduced(imports()) if set(edge) <= places.keys())
    width = 3 * _STEP_X + _WIDTH + 2 * _MARGIN
    height = (len(rows) - 1) * _STEP_Y + _HEIGHT + 2 * _MARGIN
    box = f'viewBox="0 0 {width} {height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="14">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    lines = (_line(places[one], places[two]) for one, two in edges)
    boxes = chain.from_iterable(_box(name, *place) for name, place in places.items())
    return "\n".join([*head, *lines, *boxes, "</svg>\n"])


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = _corner(*start), _corner(*end)
    if y1 == y2:
        left = x1 < x2
        x1, x2 = (x1 + _WIDTH, x2) if left else (x1, x2 + _WIDTH)
        y1 = y2 = y1 + _HEIGHT // 2
    else:
        x1, x2, y1 = x1 + _WIDTH // 2, x2 + _WIDTH // 2, y1 + _HEIGHT
    return f'<path d="M{x1} {y1} {x2} {y2}" stroke="#667" marker-end="url(#a)"/>'


def _box(name: str, column: int, row: int) -> Iterator[str]:
    x, y = _corner(column, row)
    yield f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="#e8eef7" stroke="#446"/>'
    yield f'<text x="{x + _WIDTH // 2}" y="{y + 22}" text-anchor="middle" fill="#113">{name}</text>'


def _corner(column: int, row: int) -> tuple[int, int]:
    return _MARGIN + column * _STEP_X, _MARGIN + row * _STEP_Y


if __name__ == "__main__":
    PICTURE.write_text(draw())
