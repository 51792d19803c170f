"""docs/howto/command-line.md is true of the program: its commands, options, examples and exit codes."""

import argparse
import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

from airflow_kafka_groups.cli.main import parse
from airflow_kafka_groups.cli.options import add_value, flag_of, read_place_here
from airflow_kafka_groups.cli.registry import COMMANDS, PROGRAM, ArgumentTarget, ExitCode

PAGE = (Path(__file__).parents[3] / "docs/howto/command-line.md").read_text()
BLOCKS = "".join(re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES = [line for line in BLOCKS.splitlines() if line.startswith(PROGRAM) and "--help" not in line]


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_can_be_parsed(line: str) -> None:
    assert parse(shlex.split(line)[1:]).command in COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    """The reference, which is generated, has the options."""
    assert any(line.startswith(f"{PROGRAM} {name} ") for line in EXAMPLES)


def test_no_option_is_named_that_does_not_exist() -> None:
    known = {"--help", "--output"}
    for command in COMMANDS.values():
        known |= {flag for flags, _ in command.arguments() for flag in flags}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known


def test_the_exit_codes_are_the_programs() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)] == list(ExitCode)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_names_the_commands_whose_json_is_a_list(name: str) -> None:
    """Whoever pipes it into ``jq`` has to know. Those write rows, and no summary around them."""
    said = re.search(r"In JSON and YAML, (.*?) print a list of objects", PAGE, re.DOTALL)
    assert said
    loaded = COMMANDS[name].load().run
    calls = (node for node in ast.walk(ast.parse(inspect.getsource(loaded))) if isinstance(node, ast.Call))
    written = [call for call in calls if ast.unparse(call.func) == "out.write"]
    is_list = bool(written) and all(len(call.args) == 1 for call in written)
    assert (name in re.findall(r"`([a-z-]+)`", said[1])) == is_list


def parsed(*words: str) -> argparse.Namespace:
    parser, target = argparse.ArgumentParser(allow_abbrev=False), ArgumentTarget()
    add_value(target, "min_idle_seconds", default=7.0)
    add_value(target, "max_groups")
    for flags, settings in target.arguments:
        parser.add_argument(*flags, **settings)
    args = parser.parse_args(words)
    target.read(args)
    return args


@pytest.mark.parametrize("flag", ["--min-idle", "--min-idle-seconds"])
def test_a_duration_has_two_flags(flag: str) -> None:
    assert parsed(flag, "36h").min_idle_seconds == 36 * 3600


def test_a_number_has_one_flag_and_no_default() -> None:
    assert parsed("--max-groups", "5").max_groups == 5
    assert (parsed().max_groups, parsed().min_idle_seconds) == (None, 7.0)


def test_a_file_is_found_from_this_folder_and_a_url_anywhere() -> None:
    assert read_place_here("FILE", "policy.yaml") == str(Path("policy.yaml").absolute())
    for place in ("/srv/policy.yaml", "s3://conn@bucket/policy.yaml", "file:///srv/policy.yaml"):
        assert read_place_here("FILE", place) == place


def test_a_file_that_is_there_has_no_password_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "12:30 me@work.yaml").touch()
    assert read_place_here("FILE", "12:30 me@work.yaml") == str(tmp_path / "12:30 me@work.yaml")


def test_messages_show_the_short_flag() -> None:
    assert (flag_of("min_idle_seconds"), flag_of("max_groups")) == ("--min-idle", "--max-groups")
