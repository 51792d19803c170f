"""What a mutant is: one change, the same one under the same name when other code around it has moved."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.campaign.mutants import MUTANTS, PRUNING_MUTANTS
from tests.mutants.mutate import mutants_of, mutated, sample_of


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a == b", ["a != b"]),
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        (
            "a is not None and b in c",
            ["a is not None or b in c", "a is None and b in c", "a is not None and b not in c"],
        ),
        ("not a", ["not not a"]),
        ("x if not a else y", ["x if not not a else y"]),
        ("a + b", []),
        ("-a", []),
    ],
)
def test_every_place_that_decides_is_changed_once(source: str, changed: list[str], tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(source)
    found = sorted(mutants_of(module, 1), key=lambda mutant: mutant.index)
    assert [ast.unparse(mutated(source, mutant.index)) for mutant in found] == changed


def test_a_sample_stays_when_lines_move_and_when_code_is_added(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("a == b\nnot c\nnot c\n")
    before = {mutant.digest for mutant in mutants_of(module, 1)}
    assert len(before) == 3
    module.write_text("# new\n\nd < e\na == b\nnot c\nnot c\n")
    after = {mutant.digest: mutant.line for mutant in mutants_of(module, 1)}
    assert before < set(after)
    assert sample_of(("hooks",), 5, seed=1) != sample_of(("hooks",), 5, seed=2)


def test_every_guard_that_the_campaign_takes_out_is_there() -> None:
    patches = [each for every in (MUTANTS, PRUNING_MUTANTS) for patches in every.values() for each in patches]
    assert [(place, name) for place, name, _ in patches if not hasattr(place, name)] == []
