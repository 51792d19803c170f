"""Arrow columns and single values made of Python's and numpy's, and numpy's of them, without pandas.

``pyarrow.array``, ``pyarrow.scalar``, the ``to_numpy`` of columns, the ``empty_table`` of schemas and a number or
string among the arguments of ``pyarrow.compute`` import pandas where it is installed, to see whether what they were
given is of it. That takes half a second of processor time and 50 MB of memory, which is most of what a small task
needs. Columns made of buffers do without, and buffers looked at as arrays.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ALLOCATOR = "ARROW_DEFAULT_MEMORY_POOL"


def as_column(kind: Any, values: Any) -> Any:
    """Look at the own memory of an array, Python's or numpy's, as an Arrow column: nothing is copied.

    :param kind: Arrow's type; as many bytes wide as the values are, or several of them together.
    """
    import pyarrow as pa

    count = len(values) * values.itemsize * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])


def of_numpy(values: Any, known: Any = None) -> Any:
    """Return a column of int64, float64 or booleans; numbers are looked at in numpy's own memory.

    :param values: a numpy array without gaps.
    :param known: a numpy array of booleans: which values are not null. Default: all.
    """
    import numpy as np
    import pyarrow as pa

    kinds = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_()}
    data, nulls = (
        None if part is None else pa.py_buffer(np.packbits(part, bitorder="little") if part.dtype == np.bool_ else part)
        for part in (values, known)
    )
    return pa.Array.from_buffers(kinds[values.dtype.kind], len(values), [nulls, data])


def to_numpy(values: Any) -> Any:
    """Look at a column of numbers or booleans as a numpy array, which cannot be written to.

    :param values: in one piece or several, without nulls.
    """
    import numpy as np
    import pyarrow as pa

    whole = in_one_piece(values)
    if pa.types.is_boolean(whole.type):
        return to_numpy(whole.cast(pa.int8())).view(np.bool_)
    found = np.from_dlpack(whole)
    found.flags.writeable = False
    return found


def in_one_piece(values: Any) -> Any:
    """Return a column as an array; one that has a single piece is not copied, as ``combine_chunks`` does."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        return values
    if not values.num_chunks:  # such as what a filter leaves of no row; combine_chunks would import pandas
        return pa.nulls(0, values.type)
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def empty_table(schema: Any) -> Any:
    """Return a table without rows."""
    import pyarrow as pa

    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def column(values: Sequence[Any], kind: Any) -> Any:
    """Make a column of strings, bytes, booleans, numbers, lists of these, or times; ``None`` is a null.

    :param kind: Arrow's type: string, binary, bool, int32, int64, float64, list, or timestamp in microseconds.

    Raises ``TypeError`` for a value or a type that is none of these, or a time without a zone, and ``OverflowError``
    for a number that is too large.
    """
    import pyarrow as pa

    given, children = values, None
    if None in given:
        filler: Any = (
            "" if pa.types.is_string(kind) else b"" if pa.types.is_binary(kind) else () if pa.types.is_list(kind) else 0
        )
        values = [filler if value is None else value for value in given]
    if pa.types.is_boolean(kind):
        made = as_column(pa.int8(), array("b", map(bool, values))).cast(kind)
        buffers = [made.buffers()[1]]
    elif pa.types.is_string(kind):
        data = "".join(values).encode()
        # The bytes of each text are made only where they may be more than its letters.
        sizes = map(len, values) if data.isascii() else (len(value.encode()) for value in values)
        ends = array("i", accumulate(sizes, initial=0))
        buffers = [pa.py_buffer(ends), pa.py_buffer(data)]
    elif pa.types.is_binary(kind):
        ends = array("i", accumulate(map(len, values), initial=0))
        buffers = [pa.py_buffer(ends), pa.py_buffer(values[0] if len(values) == 1 else b"".join(values))]
    elif pa.types.is_signed_integer(kind):
        numbers = array("i" if kind.bit_width == 32 else "q", values)
        buffers = [pa.py_buffer(numbers)]
    elif pa.types.is_float64(kind):
        buffers = [pa.py_buffer(array("d", values))]
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        # Whole numbers: a float of seconds has no microseconds left after the year 2106.
        micros = array("q", [value and (value - _EPOCH) // _MICROSECOND for value in values])
        buffers = [pa.py_buffer(micros)]
    elif pa.types.is_list(kind):
        buffers = [pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))]
        children = [column(list(chain.from_iterable(values)), kind.value_type)]
    else:
        raise TypeError(f"a column of the type {kind} is not made here")
    nulls = None
    if given is not values:
        known = array("b", [value is not None for value in given])
        nulls = as_column(pa.int8(), known).cast(pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [nulls, *buffers], children=children)


def literal(value: str | int | bool | None, kind: Any = None) -> Any:
    """Make a single value, for ``pyarrow.compute``.

    :param kind: Arrow's type; needed for ``None``. Default: string, bool, or int64.
    """
    import pyarrow as pa

    if value is None:
        return pa.nulls(1, kind)[0]
    usual = pa.string() if isinstance(value, str) else pa.bool_() if isinstance(value, bool) else pa.int64()
    return column([value], kind or usual)[0]


def fill_nulls(values: Any, value: str | int | bool) -> Any:
    """Return a column with a value in place of its nulls."""
    import pyarrow.compute as pc

    return pc.fill_null(values, literal(value, values.type)) if values.null_count else values


def repeat(values: Any, ends: Any) -> Any:
    """Return a column with each value as often as its run is long.

    :param values: a column with one value for each run.
    :param ends: a column of int32 or int64: where each run ends.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    length = ends[-1].as_py() if len(ends) else 0
    kind = pa.run_end_encoded(ends.type, values.type)
    return pc.run_end_decode(pa.RunEndEncodedArray.from_buffers(kind, length, [None], children=[ends, values]))


def use_system_allocator() -> None:
    """Let Arrow allocate its memory by the C library: its own allocator keeps up to 50 MB more than a task uses.

    It is chosen when Arrow is loaded. One that the environment names is kept.
    """
    if "pyarrow" not in sys.modules:
        os.environ.setdefault(_ALLOCATOR, "system")


def release_unused() -> None:
    """Return the memory that Arrow has freed to the system: its allocator keeps it, and a task's peak counts."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
