"""The command line as a program: what it imports, where it prints, and which exit codes it has."""

import argparse
import gc
import io
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups import __main__, __version__
from airflow_kafka_groups.cli import registry
from airflow_kafka_groups.cli.main import get_cli_commands, main, parse
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import COMMANDS, Command, ExitCode, dest_of
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_command_explains_itself_also_where_the_locale_lacks_its_letters(
    name: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = Stdout(encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert b"--output" in stdout.bytes()
    assert b"Exit codes" in stdout.bytes()


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in printed] == []
    titles = [line.rstrip(":") for line in printed.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[:5] == ["Look", "Judge", "Change, without --yes a dry run", "Undo", "Help"]


@pytest.mark.parametrize("words", ["", "no-such", "copy-dags", "copy-dags x --no-such", "copy-dags x --forc"])
def test_what_cannot_be_parsed_is_bad_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == ExitCode.BAD_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage:" in printed.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan --conn-id prod --min-idel 7d", "--min-idel 7d (did you mean --min-idle?); airflow-kafka-groups plan"),
        ("apply PLAN --conn-id prod --digets=1", "--digets=1 (did you mean --digest?)"),
        ("apply PLAN --conn-id prod other", "unrecognized arguments: other; airflow-kafka-groups apply --help"),
        ("restore PLAN --conn-id prod --yes --", "no group follows --"),
        ("restore PLAN --conn-id prod group --yess", "unrecognized arguments: group --yess (did you mean --yes?)"),
    ],
)
def test_an_option_that_does_not_exist_names_the_one_that_was_meant(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(line.split())
    assert left.value.code == ExitCode.BAD_USAGE
    assert said in capsys.readouterr().err


def test_groups_may_follow_the_options() -> None:
    args = parse(["restore", "PLAN", "--conn-id", "prod", "--yes", "a", "b", "--overwrite", "c"])
    assert (args.plan_id, args.group_ids, args.yes, args.overwrite) == ("PLAN", ["a", "b", "c"], True, True)
    assert parse(["lag", "a", "--conn-id", "prod", "b"]).group_ids == ["a", "b"]
    assert parse(["restore", "PLAN", "a", "--conn-id", "prod"]).group_ids == ["a"]


def test_the_module_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["airflow_kafka_groups", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(__main__.__file__, run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out == f"airflow-kafka-groups {__version__}\n"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a command ``test`` whose ``run`` a test replaces."""
    module = SimpleNamespace(add_arguments=lambda parser: None, run=lambda args, out: ExitCode.DONE)
    monkeypatch.setitem(registry.COMMANDS, "test", Command("test", "Test"))
    monkeypatch.setattr(Command, "load", lambda self: module)
    return module


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("--group", "x", "is not known"), 2),
        (KafkaGroupsError("the broker refused"), 1),
        (PermissionError("no access"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_exit_codes_and_one_line(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def run(args: argparse.Namespace, out: Output) -> ExitCode:
        raise error

    command.run = run
    assert main(["test"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert str(error) in printed.err


def test_the_collector_pauses_while_a_command_imports_and_works(command: SimpleNamespace) -> None:
    works = []

    def run(args: argparse.Namespace, out: Output) -> ExitCode:
        works.append(gc.isenabled())
        return ExitCode.DONE

    command.run = run
    assert main(["test"]) == ExitCode.DONE
    assert (works, gc.isenabled()) == ([False], True)


def test_an_error_about_an_argument_names_the_option_that_was_typed(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--min-idle", "--min-idle-seconds", dest="min_idle_seconds")
        parser.add_argument("plan_id", metavar="PLAN")

    def run(args: argparse.Namespace, out: Output) -> ExitCode:
        raise ConfigurationError(args.plan_id, 5, "is too short")

    command.add_arguments, command.run = add_arguments, run
    for field, given, shown in (
        ("min_idle_seconds", ["--min-idle", "5"], "--min-idle"),
        ("plan_id", [], "PLAN"),
        ("min_idle_seconds", [], "min_idle_seconds"),  # the site's
        ("KAFKA_GROUPS_DEFAULTS.min_idle_seconds", ["--min-idle", "5"], "KAFKA_GROUPS_DEFAULTS.min_idle_seconds"),
    ):
        assert main(["test", field, *given]) == ExitCode.BAD_USAGE
        assert capsys.readouterr().err == f"error: {shown} (got 5): is too short\n"


def test_what_a_library_prints_is_no_data(command: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    def run(args: argparse.Namespace, out: Output) -> ExitCode:
        print("noise of a library")
        out.write(Table("rows", ("a",), [(1,)]))
        return ExitCode.INCOMPLETE

    command.run = run
    assert main(["test", "-o", "csv"]) == 3
    printed = capsys.readouterr()
    assert printed.out == "a\n1\n"
    assert printed.err == "noise of a library\n"


def below_airflow(name: str) -> tuple[Any, argparse.ArgumentParser]:
    """Return a command as Airflow's own command line has it, and the parser of its arguments."""
    (group,) = get_cli_commands()
    assert (group.name, [command.name for command in group.subcommands]) == ("kafka-groups", list(COMMANDS))
    command: Any = next(each for each in group.subcommands if each.name == name)
    parser = argparse.ArgumentParser()
    for argument in command.args:
        argument.add_to_parser(parser)
    return command, parser


@pytest.mark.parametrize("name", COMMANDS)
def test_airflows_parser_gets_the_same_arguments(name: str) -> None:
    names = {action.dest for action in below_airflow(name)[1]._actions} - {"help"}
    assert names == {dest_of(flags, settings) for flags, settings in COMMANDS[name].arguments()}


def test_a_command_of_airflow_ends_with_the_exit_code(tmp_path: Path) -> None:
    command, parser = below_airflow("copy-dags")
    (tmp_path / "lag_alert.py").write_text("# mine\n")
    with pytest.raises(SystemExit) as left:
        command.func(parser.parse_args([str(tmp_path), "--only", "lag_alert"]))
    assert left.value.code == ExitCode.INCOMPLETE


class Stdout(io.TextIOWrapper):
    """A process's stdout with an encoding, and with an error for whoever writes to it."""

    def __init__(self, encoding: str, error: OSError | None = None) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.error = error

    def write(self, text: str, /) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def bytes(self) -> bytes:
        self.flush()
        found: Any = self.buffer
        return bytes(found.getvalue())


def _shows(*rows: str, **summary: str) -> Any:
    def run(args: argparse.Namespace, out: Output) -> ExitCode:
        out.write(Table("groups", ("group_id",), [(row,) for row in rows]), summary or None)
        return ExitCode.DONE

    return run


@pytest.mark.parametrize(
    ("form", "shown"), [("table", rb"z\xfcrich"), ("csv", "zürich".encode()), ("json", rb'"z\u00fcrich"')]
)
def test_a_terminal_without_unicode_shows_every_group(
    command: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, form: str, shown: bytes
) -> None:
    """Some locales have no such letter. CSV names the same group to whatever reads it."""
    stdout = Stdout("ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    command.run = _shows("zürich", "plain")
    assert main(["test", "--output", form]) == 0
    assert shown in stdout.bytes()
    assert b"plain" in stdout.bytes()


@pytest.mark.parametrize("form", ["table", "csv", "json"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), BrokenPipeError(32, "Broken pipe")])
def test_what_was_changed_is_told_also_where_stdout_cannot_be_written(
    command: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    error: OSError,
) -> None:
    """A full disk behind a redirection: the deletion has happened, and its record says to whom."""
    monkeypatch.setattr("os.dup2", lambda *_: None)
    monkeypatch.setattr(Stdout, "fileno", lambda _: 1)
    monkeypatch.setattr(sys, "stdout", Stdout("utf-8", error))
    command.run = _shows("a", plan_id="p1", record="/data/_journal/x/log/00000007.json")
    assert main(["test", "--output", form]) == 1
    said = capsys.readouterr().err
    assert "/data/_journal/x/log/00000007.json" in said
    assert str(error) in said
    command.run = _shows("a")
    assert main(["test", "--output", form]) == 1
    said = capsys.readouterr().err
    assert (said == "") is isinstance(error, BrokenPipeError), "nobody reads on, and nothing was changed"


def test_a_closed_stdout_is_no_error_of_the_command(command: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    command.run = _shows("a", record="/data/x.json")
    assert main(["test"]) == 0


RESTORE = ["--conn-id", "c", "20260101T000000Z-0a1b2c3d", "--"]


@pytest.mark.safety
def test_a_group_that_airflow_s_parser_drops_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restore of the one group that is called -- would be one of every group in the backup."""
    ran = list[Any]()

    def run(name: str, args: Any) -> int:
        ran.append(args)
        return 0

    monkeypatch.setattr("airflow_kafka_groups.cli.main.run_command", run)
    command, parser = below_airflow("restore")
    cases = ([*RESTORE, "-x"], ExitCode.DONE), ([*RESTORE, "--"], ExitCode.BAD_USAGE), (RESTORE, ExitCode.BAD_USAGE)
    for words, code in cases:
        monkeypatch.setattr("sys.argv", ["airflow", "kafka-groups", "restore", *words])
        with pytest.raises(SystemExit) as left:
            command.func(parser.parse_args(words))
        assert left.value.code == code
    assert [args.group_ids for args in ran] == [["-x"]]
    assert "no group follows --" in capsys.readouterr().err


@pytest.mark.safety
@pytest.mark.parametrize("words", [["restore", *RESTORE], ["backup", "--conn-id", "c", "--"]])
def test_an_empty_list_behind_the_options_is_not_all_groups(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose list is empty restored every group of the backup, unless its options came behind the plan."""
    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code == ExitCode.BAD_USAGE
    assert "no group follows --" in capsys.readouterr().err
    assert parse([*words, "a"]).group_ids == ["a"]
    assert parse(words[:-1]).group_ids == []
