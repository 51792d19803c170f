"""Options with values: durations have a short flag, and the older one with ``-seconds``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from airflow_kafka_groups.cli.options import absolute_place, add_value, flag_of


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_value(parser, "min_idle_seconds", "the idle time", "7d")
    add_value(parser, "max_groups", "the most groups")
    return parser.parse_args(words)


@pytest.mark.parametrize("flag", ["--min-idle", "--min-idle-seconds"])
def test_a_duration_has_two_flags(flag: str) -> None:
    assert parsed(flag, "36h").min_idle_seconds == "36h"


def test_a_number_has_one_flag_and_no_default() -> None:
    assert parsed("--max-groups", "5").max_groups == "5"
    assert (parsed().max_groups, parsed().min_idle_seconds) == (None, "7d")


def test_a_file_is_found_from_this_folder_and_a_url_anywhere() -> None:
    assert absolute_place("policy.yaml") == str(Path("policy.yaml").absolute())
    for place in ("/srv/policy.yaml", "s3://conn@bucket/policy.yaml", "file:///srv/policy.yaml"):
        assert absolute_place(place) == place


def test_a_file_that_is_there_has_no_password_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "12:30 me@work.yaml").touch()
    assert absolute_place("12:30 me@work.yaml") == str(tmp_path / "12:30 me@work.yaml")


def test_messages_show_the_short_flag() -> None:
    assert (flag_of("min_idle_seconds"), flag_of("max_groups")) == ("--min-idle", "--max-groups")
