"""Hadoop's checksums of local files, ``.<name>.crc``: a CRC-32 of each part of a file, mostly of 512 bytes."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import Struct

_HEADER = Struct(">4sI")
"""What such a file begins with: ``crc``, a zero, and the number of bytes of a part."""

_SUM = Struct(">I")


def checksum_of(path: Path) -> Path:
    """Return the path of the checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def check(content: bytes, checksums: bytes) -> None:
    """Raise ``OSError`` unless a file's content is what its checksums were made of."""
    begins, size = _HEADER.unpack_from(checksums) if len(checksums) >= _HEADER.size else (b"", 0)
    if begins != b"crc\0":
        return  # Hadoop does not compare with what is no file of checksums either
    view, parts = memoryview(content), range(0, len(content), size or 1)
    sums = memoryview(checksums)[_HEADER.size :]
    # Their number first: of a damaged size, there may have to be one for each byte.
    if len(sums) != len(parts) * _SUM.size or any(
        zlib.crc32(view[at : at + size]) != found for at, (found,) in zip(parts, _SUM.iter_unpack(sums), strict=True)
    ):
        raise OSError("Checksum error: it is not what Hadoop wrote, and has a checksum of, beside it")
