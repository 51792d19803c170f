"""Columns made of buffers are what pyarrow makes of the same values."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.storage.arrow_values import column, fill_nulls, literal, of_numpy, repeat, to_numpy

EPOCH = datetime(1970, 1, 1)
VALUES = st.sampled_from(
    [
        (pa.string(), st.text(max_size=5)),
        (pa.binary(), st.binary(max_size=5)),
        (pa.bool_(), st.booleans()),
        (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=5), max_size=3)),
        (pa.timestamp("us", tz="UTC"), st.datetimes(EPOCH, EPOCH.replace(year=2200), timezones=st.just(UTC))),
    ]
)


def test_times_are_exact_when_a_float_of_seconds_is_not() -> None:
    late = datetime(2107, 1, 1, microsecond=7, tzinfo=UTC)
    assert column([late, None], pa.timestamp("us", tz="UTC")).to_pylist() == [late, None]


@given(VALUES, st.data())
def test_a_column_is_what_pyarrow_makes_of_it(of: tuple[Any, Any], data: st.DataObject) -> None:
    kind, values = of
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    made = column(drawn, kind)
    made.validate(full=True)
    assert made.equals(pa.array(drawn, kind))
    assert (made.type, made.null_count, made.to_pylist()) == (kind, drawn.count(None), drawn)


@given(
    st.sampled_from([np.int64, np.float64, np.bool_]), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20)
)
def test_a_column_of_numpy_s_values_is_what_pyarrow_makes_of_them(kind: Any, drawn: list[tuple[bool, bool]]) -> None:
    values, known = (np.array([each[place] for each in drawn], np.bool_) for place in (0, 1))
    values = values.astype(kind)
    for made, mask in ((of_numpy(values), None), (of_numpy(values, known), ~known)):
        made.validate(full=True)
        assert made.equals(pa.array(values, mask=mask))


@pytest.mark.parametrize(
    ("value", "kind"), [("ü", None), (True, None), (False, None), (7, None), (7, pa.int32()), (None, pa.string())]
)
def test_a_single_value_is_what_pyarrow_makes_of_it(value: Any, kind: Any) -> None:
    assert literal(value, kind).equals(pa.scalar(value, kind))


@pytest.mark.parametrize(("values", "value"), [([1, None, 3], -1), (["a", None], ""), ([True, None], False)])
def test_nulls_are_filled_as_pyarrow_fills_them(values: list[Any], value: Any) -> None:
    assert fill_nulls(pa.array(values), value).equals(pc.fill_null(pa.array(values), value))
    assert fill_nulls(pa.array(values[:1]), value).equals(pa.array(values[:1]))


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_values_are_repeated_by_runs(kind: Any) -> None:
    values = pa.array(["a", None, "c"])
    assert repeat(values, pa.array([1, 3, 4], kind)).to_pylist() == ["a", None, None, "c"]
    assert repeat(values[:0], pa.array([], kind)).to_pylist() == []


@pytest.mark.parametrize(
    ("values", "kind", "error"),
    [([1], pa.string(), TypeError), (["1"], pa.int32(), TypeError), ([2**31], pa.int32(), OverflowError),
     ([1.5], pa.float32(), TypeError)],
)  # fmt: skip
def test_what_fits_no_column_is_refused(values: list[Any], kind: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        column(values, kind)


@given(
    st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.bool_()]),
    st.lists(st.lists(st.integers(0, 1), max_size=5), max_size=3),
    st.integers(0, 5),
)
def test_numpy_s_view_of_a_column_is_what_pyarrow_makes_of_it(kind: Any, pieces: list[list[int]], cut: int) -> None:
    several = pa.chunked_array([pa.array(each, pa.int8()).cast(kind) for each in pieces], kind).slice(cut)
    for values in (several, several.combine_chunks(), *several.chunks):
        found = to_numpy(values)
        expected = values.to_numpy(**({} if values is several else {"zero_copy_only": False}))
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
        assert not found.flags.writeable


@pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack capsule")  # numpy asks a second time, the old way
def test_numpy_sees_no_column_that_has_nulls() -> None:
    with pytest.raises(Exception, match="no nulls"):
        to_numpy(pa.array([1, None]))
