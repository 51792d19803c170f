"""The options that several jobs have."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.spark.unread.group import ISOLATION_LEVELS
from airflow_kafka_groups.spark.unread.ranges import POLICY_CHOICES, POLICY_DOUBTS

KAFKA_PROPERTIES = "--kafka-properties"
TABLE = "--table"
_TABLE_NAME = re.compile(r"\w+(\.[\w-]+){0,3}", re.ASCII)


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the folder of all clusters."""
    parser.add_argument(
        "--base",
        required=True,
        type=folder_path,
        help="folder with one folder for each cluster, e.g. s3a://bucket/kafka-groups",
    )


def add_reading(parser: argparse.ArgumentParser, policies: Iterable[str]) -> None:
    """Add the options that say which unread records are read.

    :param policies: names of ``POLICY_CHOICES``.
    """
    level = ISOLATION_LEVELS[0]
    words = f"which records of transactions to read (default {level})"
    parser.add_argument("--isolation-level", choices=ISOLATION_LEVELS, default=level, help=words)
    for name in policies:
        choices = POLICY_CHOICES[name]
        words = f"what to do about {POLICY_DOUBTS[name]} (default {choices[0]})"
        parser.add_argument(f"--{name.replace('_', '-')}", choices=choices, default=choices[0], help=words)


def folder_path(text: str) -> str:
    """Parse a folder for argparse: ``/out/`` is ``/out``, whose summary is ``/out.json``."""
    return text.rstrip("/")


def check_folder(option: str, path: str | None) -> None:
    """Raise ``ArgumentError`` for an option with no folder, or with one that Spark would read as a pattern."""
    if path is not None and (not path or any(letter in path for letter in "*?[]{}\\")):
        raise ArgumentError(option, path, "give a folder or URI without any of * ? [ ] { } \\")


def add_table(parser: argparse.ArgumentParser, what: str, option: str = TABLE) -> None:
    """Add an option that names a table."""
    parser.add_argument(
        option, type=_table_name, metavar="NAME", help=f"also write {what} to this table of the session's catalogue"
    )


def _table_name(text: str) -> str:
    if not _TABLE_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the name of a table: give [catalog.][database.]name, of letters, digits, '_' and '-'"
        )
    return text
