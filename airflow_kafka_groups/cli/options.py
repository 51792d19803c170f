"""Options of many commands: numbers, durations and places.

``--min-idle 36h`` is the same as ``--min-idle-seconds 129600``.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from airflow_kafka_groups.cli.registry import ArgumentTarget, Reader
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer
from airflow_kafka_groups.storage.url_secrets import has_secret

_SUFFIX = "_seconds"


def add_value(parser: ArgumentTarget, name: str, *, read: Reader | None = None, **settings: Any) -> None:
    """Add a number. One whose name ends with ``_seconds`` is a duration, and has a flag without that ending, too."""
    flags = list(dict.fromkeys((flag_of(name), f"--{name.replace('_', '-')}")))
    by_name: tuple[str, Reader] = ("TIME", read_duration) if name.endswith(_SUFFIX) else ("N", read_integer)
    parser.add_argument(*flags, dest=name, metavar=by_name[0], read=read or by_name[1], **settings)


def add_view_arguments(parser: ArgumentTarget) -> None:
    """Add how rows are looked at: ``--sort``, ``--limit``, ``--watch``."""
    sort = "sort by this column; with :desc, the largest first. Rows without a value come last"
    parser.add_argument("--sort", metavar="COLUMN[:desc]", help=sort)
    add_value(parser, "limit", help="show the first N rows only")
    again, seconds = "do it again each time so many seconds have passed, e.g. 5s", partial(read_duration, minimum=1)
    parser.add_argument("--watch", metavar="TIME", read=seconds, help=again)


def flag_of(name: str) -> str:
    """Return the flag of an option, as messages show it."""
    return f"--{name.removesuffix(_SUFFIX).replace('_', '-')}"


def read_distinct(field: str, values: list[str]) -> list[str] | None:
    """Read values without duplicates, ``None`` for none."""
    return list(dict.fromkeys(values)) or None


def read_place_here(field: str, text: str) -> str:
    """Read the absolute path of a file that was named on the command line. A URL stays as it is, and so does "".

    What has a password, such as a URL with a slash too few, stays so that it is refused: in a path it would be shown.
    """
    is_secret = has_secret(text) and not os.path.exists(text)
    return text if not text or "://" in text or is_secret else os.path.abspath(text)
