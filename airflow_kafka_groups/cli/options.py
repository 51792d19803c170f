"""Options of many commands: numbers, durations and places.

``--min-idle 36h`` is the same as ``--min-idle-seconds 129600``.
"""

from __future__ import annotations

import os

from airflow_kafka_groups.cli.registry import ArgumentTarget
from airflow_kafka_groups.storage.url_secrets import has_secret

_SUFFIX = "_seconds"


def add_value(parser: ArgumentTarget, name: str, *, default: str | None = None, **settings: str) -> None:
    """Add an option. One whose name ends with ``_seconds`` takes a duration, and has a flag without that ending."""
    flags = list(dict.fromkeys((flag_of(name), f"--{name.replace('_', '-')}")))
    metavar = "TIME" if name.endswith(_SUFFIX) else "N"
    parser.add_argument(*flags, dest=name, metavar=metavar, default=default, **settings)


def add_view_arguments(parser: ArgumentTarget) -> None:
    """Add how rows are looked at: ``--sort``, ``--limit``, ``--watch``."""
    sort = "sort by this column; with :desc, the largest first. Rows without a value come last"
    parser.add_argument("--sort", metavar="COLUMN[:desc]", help=sort)
    parser.add_argument("--limit", metavar="N", help="show the first N rows only")
    parser.add_argument("--watch", metavar="TIME", help="do it again each time so many seconds have passed, e.g. 5s")


def flag_of(name: str) -> str:
    """Return the flag of an option, as messages show it."""
    return f"--{name.removesuffix(_SUFFIX).replace('_', '-')}"


def distinct(values: list[str] | None) -> list[str] | None:
    """Return values without duplicates, ``None`` for none."""
    return list(dict.fromkeys(values or ())) or None


def absolute_place(text: str) -> str:
    """Return the absolute path of a file that was named on the command line. A URL stays as it is, and so does "".

    What has a password, such as a URL with a slash too few, stays so that it is refused: in a path it would be shown.
    """
    is_secret = has_secret(text) and not os.path.exists(text)
    return text if not text or "://" in text or is_secret else os.path.abspath(text)
