"""Options that many commands have, and what they stand for: cluster and files, numbers, groups, a plan's policy.

``--min-idle 36h`` is the same as ``--min-idle-seconds 129600``. Airflow is imported for ``--conn-id`` only, and by the
commands that must know the site's limits.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shlex
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.cli.output import say
from airflow_kafka_groups.cli.registry import PROGRAM, ArgumentTarget, Reader
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, PolicyError
from airflow_kafka_groups.hooks.airflow_lookups import has_no_tables
from airflow_kafka_groups.hooks.arguments import (
    read_duration,
    read_integer,
    read_number,
    read_patterns,
    read_place,
    read_text,
)
from airflow_kafka_groups.hooks.cluster import ConnectedCluster
from airflow_kafka_groups.hooks.connection import read_official
from airflow_kafka_groups.hooks.floors import DEFAULTS, default_cluster, default_storage, plan_policy, site_floors
from airflow_kafka_groups.hooks.storage import open_layout, open_policy
from airflow_kafka_groups.kafka.cluster.librdkafka import parse_properties
from airflow_kafka_groups.observe.patterns import GroupFilter, check_patterns
from airflow_kafka_groups.observe.readings import GroupSelection
from airflow_kafka_groups.operators.support.dag_form import checked_defaults
from airflow_kafka_groups.storage.disk import LARGEST, read_local
from airflow_kafka_groups.storage.url_secrets import has_secret

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.connection import ConnectionSettings
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.observe.readings import GroupsRead
    from airflow_kafka_groups.storage.layout import Layout

R = TypeVar("R")
_NUMBERS: Mapping[str, Callable[[str, Any], float]] = {
    "min_idle_seconds": read_duration,
    "min_observations": partial(read_integer, minimum=2),
    "max_groups": partial(read_integer, minimum=1),
    "max_share": partial(read_number, maximum=1),
    "max_plan_age_seconds": read_duration,
    "max_gap_seconds": read_duration,
    "offsets_retention_minutes": read_integer,
}
"""How each number of a judgement or a plan is read."""
MAX_GAP_SECONDS = 2 * 86_400
"""The default of the longest time between two snapshots that a plan rests on, as in the shipped DAGs."""
OF_RULES = ("min_idle_seconds", "min_observations")
"""The options that are for plans without a policy file: each of its rules has its own."""
_FIRST = 20
_SUFFIX = "_seconds"
_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_WAYS = ("conn_id", "config", "bootstrap_servers")
_SECRETS = ("password", "secret", "key.pem", "oauthbearer.config")
_OTHERS_MAY_READ = 0o077


def add_connection_arguments(parser: ArgumentTarget) -> None:
    parser.add_argument("--conn-id", metavar="ID", help="an Airflow connection of the type kafka_groups or kafka")
    parser.add_argument(
        "--config", metavar="FILE", help="a file of librdkafka properties (name=value); secrets belong here"
    )
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers that need no login and no TLS")


def add_storage_arguments(parser: ArgumentTarget) -> None:
    add_connection_arguments(parser)
    above = "folder above all clusters, or its URL (default: that of KAFKA_GROUPS_DEFAULTS)"
    parser.add_argument("--storage-path", metavar="PATH", help=above)
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="the cluster's folder; required without --conn-id (default: the cluster of KAFKA_GROUPS_DEFAULTS if that "
        "has the same connection, otherwise the connection's id)",
    )


def source_of(args: argparse.Namespace) -> Callable[[], MaintenanceClient] | None:
    """Return what builds the client of the cluster that ``--source-…`` names, ``None`` where nothing does."""
    given = {name: getattr(args, f"source_{name}") for name in _WAYS}
    if not any(given.values()):
        return None
    return Cluster(argparse.Namespace(**given)).get_conn


class Cluster(ConnectedCluster):
    """The cluster that a command's options name."""

    def __init__(self, args: argparse.Namespace) -> None:
        given = [name for name in _WAYS if getattr(args, name) is not None]
        if len(given) != 1:
            ways = "--conn-id, --config or --bootstrap-servers"
            raise ConfigurationError("connection", None, f"give exactly one of {ways}")
        self._args = args

    @cached_property
    def settings(self) -> ConnectionSettings:
        """The settings of the connection."""
        args = self._args
        if args.conn_id is not None:
            use_airflow_database()
            from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

            return KafkaGroupsHook(args.conn_id).settings
        if args.config is not None:
            name, properties = str(args.config), read_properties(Path(args.config))
            if not properties.get("bootstrap.servers"):
                remedy = "has no brokers: add the line bootstrap.servers=broker1:9092,broker2:9092"
                raise ConfigurationError("--config", name, remedy)
        else:
            name, properties = "--bootstrap-servers", {"bootstrap.servers": args.bootstrap_servers}
            if not args.bootstrap_servers.strip():
                raise ConfigurationError(name, "", "name the brokers, such as broker1:9092,broker2:9092")
        return read_official(name, {of: value for of, value in properties.items() if value != ""})

    @cached_property
    def storage_path(self) -> str:
        """The folder above all clusters."""
        if self._args.storage_path is not None:
            return read_place("--storage-path", self._args.storage_path)
        checked_defaults()  # with a misspelt name, other files would be read
        if (found := default_storage()) is None:
            raise ConfigurationError("--storage-path", None, f"give it, or set storage_path in {DEFAULTS}")
        return found

    @property
    def folder(self) -> str | None:
        """The cluster's folder, ``None`` for the connection's id."""
        if self._args.cluster is not None:
            return str(self._args.cluster)
        if self._args.conn_id is None:
            raise ConfigurationError("--cluster", None, "name the cluster's folder: with --conn-id, it is that id")
        checked_defaults()
        return default_cluster(str(self._args.conn_id))

    def layout(self) -> Layout:
        """Return the paths of the cluster's files."""
        return open_layout(self.storage_path, self.folder, str(self._args.conn_id))

    def floors(self) -> SiteFloors:
        """Return the limits of site and connection. Raises ``ConfigurationError`` for a storage that they forbid."""
        return site_floors(self.settings, self.storage_path)

    def command(self, *words: str) -> str:
        """Return another command on the same cluster and files, to be pasted into the same shell."""
        given = {name: getattr(self._args, name, None) for name in (*_WAYS, "storage_path", "cluster")}
        same = [(f"--{name.replace('_', '-')}", str(value)) for name, value in given.items() if value is not None]
        return shlex.join([PROGRAM, *words, *chain.from_iterable(same)])


def use_airflow_database() -> None:
    """Let Airflow read connections and Variables from its database, as it does only in a process that says it may.

    A database that was never set up is left alone: Airflow would print a traceback for each Variable that it looks for.
    """
    if _CONTEXT not in os.environ and not has_no_tables():
        os.environ[_CONTEXT] = "server"


def actor(command: str) -> dict[str, str]:
    """Return who runs a command, as the journal records it: not as LOGNAME and USER say, which anybody can set."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user may have no name
        user = str(os.getuid())
    return {"command": f"{PROGRAM} {command}", "user": user, "host": socket.gethostname()}


def read_properties(path: Path) -> dict[str, str]:
    try:
        content = read_local(path, most=LARGEST, may_be_pipe=True).decode("utf-8-sig")
        readable = path.stat().st_mode & _OTHERS_MAY_READ
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError("--config", str(path), f"cannot be read: {why}") from None
    found = parse_properties("--config", str(path), content)
    if readable and any(word in name for name in found for word in _SECRETS):
        say(f"warning: other users may read {path}, which has secrets: chmod 600 {path}")
    return found


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
    return f"--{name.removesuffix(_SUFFIX).replace('_', '-')}"


def read_distinct(field: str, values: list[str]) -> list[str] | None:
    return list(dict.fromkeys(values)) or None


def read_place_here(field: str, text: str) -> str:
    """Read the absolute path of a file that was named on the command line. A URL stays as it is, and so does "".

    What has a password, such as a URL with a slash too few, stays so that it is refused: in a path it would be shown.
    """
    is_secret = has_secret(text) and not os.path.exists(text)
    return text if not text or "://" in text or is_secret else os.path.abspath(text)


def add_pattern_arguments(parser: ArgumentTarget) -> None:
    parser.add_argument("--include", action="append", metavar="PATTERN")
    parser.add_argument("--exclude", action="append", metavar="PATTERN")


def add_group_arguments(parser: ArgumentTarget, *, required: bool = False) -> None:
    add_connection_arguments(parser)
    parser.add_argument("group_ids", nargs="+" if required else "*", metavar="GROUP")
    if not required:
        add_pattern_arguments(parser)
    add_view_arguments(parser)


def add_numbers(parser: ArgumentTarget, numbers: Sequence[str]) -> None:
    """Add the options of a plan; without a policy file, the gap is that of the shipped DAGs."""
    for name in numbers:
        own = {"help": "longest time between two snapshots; 0: any (default: 2d)"} if name == "max_gap_seconds" else {}
        add_value(parser, name, read=_NUMBERS[name], **own)


def filter_of(args: argparse.Namespace) -> GroupFilter:
    for name in ("include", "exclude"):
        check_patterns(f"--{name}", getattr(args, name) or ())
    return GroupFilter(tuple(args.include or ("*",)), tuple(args.exclude or ()))


def take_defaults(
    args: argparse.Namespace, numbers: Sequence[str], renamed: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Fill in the options of a plan that were not given as the shipped DAGs do: a group that they spare is spared here.

    The groups that are left out by default are so in any case.

    :param renamed: options with another name in the defaults. Default: none.

    ``args.site_fields`` has the names of the defaults that filled in an option. Returns the site's defaults.
    """
    defaults = checked_defaults()
    args.site_fields = {}
    for name in numbers:
        of_site = (renamed or {}).get(name, name)
        if getattr(args, name) is None and defaults.get(of_site) is not None:
            args.site_fields[name] = f"{DEFAULTS}.{of_site}"
            setattr(args, name, _NUMBERS[name](args.site_fields[name], defaults[of_site]))
    args.include = args.include or read_patterns(f"{DEFAULTS}.include", defaults.get("include") or [])
    args.exclude = [*read_patterns(f"{DEFAULTS}.exclude", defaults.get("exclude") or []), *(args.exclude or ())]
    if args.policy_file is not None:
        args.policy_file = read_place_here("--policy-file", args.policy_file)
    elif defaults.get("policy_file"):  # an empty one is none, as in the form
        args.site_fields["policy_file"] = f"{DEFAULTS}.policy_file"
        args.policy_file = read_text(args.site_fields["policy_file"], defaults["policy_file"])
    return defaults


def policy_file_of(args: argparse.Namespace, floors: SiteFloors) -> PolicyFile | None:
    """Read the policy file that the option or the site's defaults name, after ``take_defaults``; ``None`` for none."""
    if args.policy_file is None:
        return None
    field = args.site_fields.get("policy_file", "--policy-file")
    try:
        return open_policy(field, args.policy_file, floors)
    except PolicyError as error:
        raise ConfigurationError(field, None, str(error)) from error


def numbers_of(args: argparse.Namespace, numbers: Sequence[str]) -> dict[str, float]:
    return {name: value for name in numbers if (value := getattr(args, name)) is not None}


def policy_of(
    args: argparse.Namespace, settings: ConnectionSettings, file: PolicyFile | None = None, **more: Any
) -> PlanPolicy:
    """Return the policy of a plan, as ``plan_policy``: without a gap, that of the file or the shipped DAGs counts."""
    if args.max_gap_seconds is None:
        more["max_gap_seconds"] = 0 if file and "max_gap_seconds" in file.limits else MAX_GAP_SECONDS
    patterns = filter_of(args)
    return plan_policy(args, settings, include=patterns.include, exclude=patterns.exclude, **more)


def read_chosen(args: argparse.Namespace, read: Callable[[AdminClient, GroupSelection], Awaitable[R]]) -> R:
    """Read the named groups, or those of the cluster that match."""
    if args.group_ids and (args.include or args.exclude):
        raise ConfigurationError("--include, --exclude", None, "are for all groups: name groups or give patterns")
    cluster = Cluster(args)
    selection = GroupSelection(
        group_ids=args.group_ids or None,
        groups=filter_of(args),
        protected=cluster.settings.protected_groups,
        may_be_short=True,
    )

    async def say_and_read(admin: AdminClient) -> R:
        if selection.group_ids is None:
            await say_if_fewer_are_listed(admin)
        return await read(admin, selection)

    return cluster.run(say_and_read)


def say_what_is_missing(errors: Mapping[Any, KafkaGroupsError]) -> None:
    for where, error in errors.items():
        say(f"warning: groups may be missing: {where}: {error}")


async def say_if_fewer_are_listed(admin: AdminClient) -> None:
    """Print on stderr whether a listing lacks groups that this user may not describe, in the words of ``doctor``."""
    from airflow_kafka_groups.kafka.admin.client.access import FEWER_LISTED, SEE_ALL, lists_all

    with suppress(KafkaGroupsError):  # what is wrong is said by what this is about
        if await lists_all(admin) is False:
            say(f"warning: {FEWER_LISTED} {SEE_ALL}")


def report(read: GroupsRead[Any], missing: Sequence[str] | None = None) -> bool:
    """Print on stderr what a reading lacks, and return whether it is complete.

    :param missing: named groups that do not exist. Default: those that the reading found to be missing.
    """
    missing = read.missing if missing is None else missing
    say_what_is_missing(read.unlisted)
    report_failures(read.found.failed, missing)
    return not (read.found.failed or missing or read.unlisted)


def report_failures(failed: Mapping[str, KafkaGroupsError], missing: Sequence[str] = ()) -> None:
    for group_id in sorted(failed)[:_FIRST]:
        say(f"error: {group_id!r}: {failed[group_id]}")
    if len(failed) > _FIRST:
        say(f"error: {len(failed) - _FIRST} more groups could not be read")
    if missing:
        say(f"warning: {len(missing)} group(s) do not exist, first {missing[0]!r}")


def write_report(layout: Layout, plan: DeletionPlan) -> str | None:
    """Write the report of a plan; return its path. Without one, what was planned or deleted has to be known, too."""
    from airflow_kafka_groups.report.html import make_report

    try:
        path, _ = make_report(layout, plan)
    except (KafkaGroupsError, OSError) as error:
        say(f"warning: the report could not be written: {error}")
        return None
    say(f"Report: {path}")
    return path
