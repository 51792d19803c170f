from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.observe.snapshot.reader import GroupBlock, whole_groups


def batch(ids: Sequence[str | None]) -> pa.RecordBatch:
    numbers = pa.array(range(len(ids)), pa.int32())
    return pa.record_batch({"group_id": pa.array(ids, pa.string()), "number": numbers})


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.integers(0, 12), max_size=5))
def test_groups_are_whole_wherever_batches_end(ids: list[str], cuts: list[int]) -> None:
    bounds = sorted({0, len(ids), *(cut for cut in cuts if cut <= len(ids))})
    blocks = list(whole_groups(batch(ids).slice(start, end - start) for start, end in pairwise(bounds)))
    sizes = [(block, pairwise([0, *block.ends])) for block in blocks]
    found = [
        (id_, end - start) for block, ends in sizes for id_, (start, end) in zip(block.group_ids, ends, strict=True)
    ]
    assert found == runs(ids)
    assert [row for block in blocks for row in block.rows["number"].to_pylist()] == list(range(len(ids)))


def runs(ids: list[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for group_id in ids:
        if found and found[-1][0] == group_id:
            found[-1] = (group_id, found[-1][1] + 1)
        else:
            found.append((group_id, 1))
    return found


def test_columns_of_a_block_by_group() -> None:
    rows = batch(["a", "a", "b", "c"]).append_column("error", pa.array([None, "x", None, "y"], pa.string()))
    block = GroupBlock(rows)
    assert (len(block), block.ends, block.first("number").to_pylist()) == (3, [2, 3, 4], [0, 2, 3])
    assert block.errors() == ["x", None, "y"]
    assert block.repeated(["A", "B", "C"]).to_pylist() == ["A", "A", "B", "C"]
    assert GroupBlock(rows.slice(0, 1)).errors() == [None]
    assert GroupBlock(rows.slice(0, 0)).repeated([]).to_pylist() == []


def test_a_row_of_no_group_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks its group id"):
        list(whole_groups([batch(["a"]), batch([None])]))
