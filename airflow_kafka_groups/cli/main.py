"""Parsing of the command line, and the exit codes of what it runs; the same commands below ``airflow kafka-groups``.

stdout is for data. Whatever else is printed while a command runs, by Airflow or another library, goes to stderr.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from airflow_kafka_groups import __version__
from airflow_kafka_groups.cli.output import Output, View, say, stdout_for
from airflow_kafka_groups.cli.registry import COMMANDS, GROUPS, OTHER_NAMES, PROGRAM, ExitCode, dest_of, name_shown
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError

if TYPE_CHECKING:
    from airflow.cli.cli_config import GroupCommand

_EPILOG = """Exit codes: 0 done; 1 failed; 2 bad usage or configuration, nothing was touched;
3 something was left out; 130 interrupted."""
_HAPPENED = "stdout lacks the result; what happened is in"
_NO_GROUP = "no group follows --, and without any the command is about all of them: leave -- out if that is meant"
_NO_UTF_8 = re.compile(r"[\ud800-\udfff]")
"""What Python makes of the bytes of a terminal in Latin-1: letters that no broker takes."""
_COMPLETES = "_ARGCOMPLETE"
"""What the shell sets when it asks for completions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    :param argv: the arguments. Default: those of the process.
    """
    # Airflow warns of every connection type with an underscore. It reads its levels once, when it is first imported.
    os.environ.setdefault("AIRFLOW__LOGGING__NAMESPACE_LEVELS", "airflow.models.connection.Connection=ERROR")
    logging.getLogger("aiokafka").setLevel(logging.WARNING)  # it has a line for every login, and Airflow prints them
    arguments = list(sys.argv[1:] if argv is None else argv)
    if _COMPLETES in os.environ:  # the shell asks what may be typed next
        arguments = os.environ["COMP_LINE"].split()[1:]
    stdout_for("table")  # --help has letters that a locale may lack
    args = parse(arguments)
    return run_command(args.command, args)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Exits with code 2 and a message for what cannot be parsed, as ``argparse`` does."""
    chosen = next((name for name in arguments if not name.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} COMMAND …",
        description=_overview(),
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=PROGRAM, help=argparse.SUPPRESS
    )
    parsers = {}
    for name, command in COMMANDS.items():
        parsers[name] = of_command = commands.add_parser(
            name, description=f"{command.help}.", epilog=_EPILOG, allow_abbrev=False
        )
        if name == chosen:  # the others need not be imported
            for flags, settings in command.arguments():
                of_command.add_argument(*flags, **settings)
    if _COMPLETES in os.environ:
        with suppress(ImportError):  # Airflow brings argcomplete
            from argcomplete import autocomplete

            autocomplete(parser)  # and ends
    args, left = parser.parse_known_args(arguments)
    if why := why_no_groups(arguments, getattr(args, "group_ids", None)):
        parsers[args.command].error(why)
    if left:
        _take_as_groups(left, args, parsers[args.command])
    _refuse_empty(args, parsers[args.command])
    return args


def _overview() -> str:
    lines = ["Work with Kafka consumer groups in bulk: look at them, and remove stale ones safely."]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<16}{command.help}" for name, command in commands.items())]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help has the options of a command."])


def why_no_groups(words: Sequence[str], groups: list[str] | None) -> str | None:
    """Return why what follows ``--`` names no groups: a command about one, or none, would be about all of them.

    :param groups: what was parsed; ``None`` for a command that is not about any number of groups.
    """
    return _NO_GROUP if words[-1:] == ["--"] and groups == [] else None


def _refuse_empty(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit with code 2 for an option without a value, such as a variable that a script did not set."""
    for action in parser._actions:
        if action.option_strings and getattr(args, action.dest, None) == "":
            parser.error(f"argument {action.option_strings[-1]}: must not be empty; is a variable not set?")


def _take_as_groups(left: list[str], args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Take what argparse left over as group ids: behind an option it finds none that are optional.

    Exits with code 2 and the nearest option, if there is one that was meant, for everything else.
    """
    end = left.index("--") if "--" in left[:-1] else len(left)  # behind a last one, a script's list was empty
    options = [word for word in left[:end] if word.startswith("-")]
    if not options and isinstance(getattr(args, "group_ids", None), list):
        args.group_ids += left[:end] + left[end + 1 :]
        return
    known = re.findall(r"--[a-z][a-z-]+", parser.format_help())
    near = get_close_matches(options[0].partition("=")[0], known, n=1) if options else []
    meant = f" (did you mean {near[0]}?)" if near else ""
    parser.error(f"unrecognized arguments: {' '.join(left)}{meant}; {parser.prog} --help lists all")


def run_command(name: str, args: argparse.Namespace) -> int:
    out = Output(args.output, stdout_for(args.output))
    try:
        COMMANDS[name].target().read(args)
        out.view = View(getattr(args, "sort", None), getattr(args, "limit", None))
        seconds = getattr(args, "watch", None)
        from airflow_kafka_groups.kafka.admin.results import collection_paused

        groups = "".join(getattr(args, "group_ids", None) or [getattr(args, "group_id", None) or ""])
        if _NO_UTF_8.search(groups):
            remedy = "is not UTF-8, as the ids of groups are: check the encoding of your terminal or script"
            raise ConfigurationError("GROUP", groups, remedy)
        with redirect_stdout(sys.stderr), collection_paused():  # it looks through all of Airflow, again and again
            while True:
                code = COMMANDS[name].load().run(args, out)
                if seconds is None:
                    return code
                time.sleep(seconds)
                out.clear()
    except ConfigurationError as error:
        say(f"error: {_as_typed(error, name, args)}")
        return ExitCode.BAD_USAGE
    except BrokenPipeError as error:  # such as "| head": nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if out.record is not None:
            say(f"error: {error}{_where(out)}")
        return ExitCode.FAILED
    except (KafkaGroupsError, OSError) as error:
        say(f"error: {error}{_where(out)}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        say(f"interrupted{_where(out)}")
        return ExitCode.INTERRUPTED


def get_cli_commands() -> list[GroupCommand]:
    """Return the commands for Airflow's own command line, ``airflow kafka-groups …``, since Airflow 3.2."""
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

    commands = [
        ActionCommand(
            name=name,
            help=command.help,
            func=partial(_run_below_airflow, name),
            args=[Arg(flags=flags, **settings) for flags, settings in command.arguments()],  # type: ignore[no-untyped-call]  # Airflow's own
        )
        for name, command in COMMANDS.items()
    ]
    return [GroupCommand(name="kafka-groups", help="Work with Kafka consumer groups in bulk", subcommands=commands)]


def _run_below_airflow(name: str, args: argparse.Namespace) -> None:
    if why := why_no_groups(sys.argv, getattr(args, "group_ids", None)):
        say(f"error: {why}")
        sys.exit(ExitCode.BAD_USAGE)
    sys.exit(run_command(name, args))


def _as_typed(error: ConfigurationError, command: str, args: argparse.Namespace) -> str:
    """Return the message of an error about an argument that has another name below an operator, as it was typed.

    What the site's defaults filled in was not typed.
    """
    names = {
        dest_of(flags, settings): name_shown(flags, settings)
        for flags, settings in COMMANDS[command].arguments()
        if getattr(args, dest_of(flags, settings), None) not in (None, False, settings.get("default"))
    } | getattr(args, "site_fields", {})
    names |= {of_operator: names[typed] for of_operator, typed in OTHER_NAMES.items() if typed in names}
    return str(error).replace(error.field, str(names.get(error.field, error.field)), 1)


def _where(out: Output) -> str:
    return "" if out.record is None else f"; {_HAPPENED} {out.record}"
