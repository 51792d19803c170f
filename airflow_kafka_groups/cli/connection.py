"""How a command reaches its cluster and its files: the options, and what they stand for.

Airflow is imported for ``--conn-id`` only, and by the commands that must know the site's limits.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import shlex
import socket
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.output import say
from airflow_kafka_groups.cli.registry import PROGRAM
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.cluster import ConnectedCluster
from airflow_kafka_groups.storage.disk import LARGEST, read_local

if TYPE_CHECKING:
    from airflow_kafka_groups.cli.registry import ArgumentTarget
    from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.storage.layout import Layout

_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_WAYS = ("conn_id", "config", "bootstrap_servers")
_SECRETS = ("password", "secret", "key.pem", "oauthbearer.config")
_OTHERS_MAY_READ = 0o077
_PROPERTY = re.compile(r"[A-Za-z0-9._-]+")


def add_connection_arguments(parser: ArgumentTarget) -> None:
    """Add the three ways to name a cluster."""
    parser.add_argument("--conn-id", metavar="ID", help="an Airflow connection of the type kafka_groups or kafka")
    parser.add_argument(
        "--config", metavar="FILE", help="a file of librdkafka properties (name=value); secrets belong here"
    )
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers that need no login and no TLS")


def add_storage_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments that say where the cluster's files are."""
    add_connection_arguments(parser)
    parser.add_argument(
        "--storage-path",
        metavar="PATH",
        help="folder above all clusters, or its URL (default: that of KAFKA_GROUPS_DEFAULTS)",
    )
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
    """The cluster that a command's options name.

    Raises ``ConfigurationError`` unless exactly one connection is given.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        given = [name for name in _WAYS if getattr(args, name) is not None]
        if len(given) != 1:
            ways = "--conn-id, --config or --bootstrap-servers"
            raise ConfigurationError("connection", None, f"give exactly one of {ways}")
        self._args = args

    @cached_property
    def settings(self) -> ConnectionSettings:
        """The settings of the connection. Raises ``ConfigurationError`` naming what is wrong with them."""
        args = self._args
        if args.conn_id is not None:
            use_airflow_database()
            from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

            return KafkaGroupsHook(args.conn_id).settings
        from airflow_kafka_groups.hooks.connection.settings import OFFICIAL_CONN_TYPE, read_connection

        if args.config is not None:
            name, properties = str(args.config), read_properties(Path(args.config))
            if not properties.get("bootstrap.servers"):
                remedy = "has no brokers: add the line bootstrap.servers=broker1:9092,broker2:9092"
                raise ConfigurationError("--config", name, remedy)
        else:
            name, properties = "--bootstrap-servers", {"bootstrap.servers": args.bootstrap_servers}
            if not args.bootstrap_servers.strip():
                raise ConfigurationError(name, "", "name the brokers, such as broker1:9092,broker2:9092")
        fields: Any = {"conn_id": name, "conn_type": OFFICIAL_CONN_TYPE, "extra": json.dumps(properties)}
        return read_connection(SimpleNamespace(**fields, host=None, login=None, password=None, port=None))

    @cached_property
    def storage_path(self) -> str:
        """The folder above all clusters. Raises ``ConfigurationError`` if none is given."""
        from airflow_kafka_groups.hooks.arguments import read_place
        from airflow_kafka_groups.hooks.floors import DEFAULTS, default_storage
        from airflow_kafka_groups.operators.support.dag_form import checked_defaults

        if self._args.storage_path is not None:
            return read_place("--storage-path", self._args.storage_path)
        checked_defaults()  # with a misspelt name, other files would be read
        if (found := default_storage()) is None:
            raise ConfigurationError("--storage-path", None, f"give it, or set storage_path in {DEFAULTS}")
        return found

    @property
    def folder(self) -> str | None:
        """The cluster's folder, ``None`` for the connection's id. Raises ``ConfigurationError`` if nothing names it."""
        from airflow_kafka_groups.hooks.floors import default_cluster
        from airflow_kafka_groups.operators.support.dag_form import checked_defaults

        if self._args.cluster is not None:
            return str(self._args.cluster)
        if self._args.conn_id is None:
            raise ConfigurationError("--cluster", None, "name the cluster's folder: with --conn-id, it is that id")
        checked_defaults()
        return default_cluster(str(self._args.conn_id))

    def layout(self) -> Layout:
        """Return the paths of the cluster's files. Raises ``ConfigurationError`` for a path or name that cannot be."""
        from airflow_kafka_groups.hooks.storage import open_layout

        return open_layout(self.storage_path, self.folder, str(self._args.conn_id))

    def floors(self) -> SiteFloors:
        """Return the site's limits: those of Airflow's configuration and of the connection.

        Raises ``ConfigurationError`` for a limit that cannot be read, and for another storage than the site's.
        """
        from airflow_kafka_groups.hooks.floors import site_floors

        return site_floors(self.settings, self.storage_path)

    def command(self, *words: str) -> str:
        """Return another command on the same cluster and files, to be pasted into the same shell.

        :param words: the command with its own arguments.
        """
        given = {name: getattr(self._args, name, None) for name in (*_WAYS, "storage_path", "cluster")}
        same = [(f"--{name.replace('_', '-')}", str(value)) for name, value in given.items() if value is not None]
        return shlex.join([PROGRAM, *words, *chain.from_iterable(same)])


def use_airflow_database() -> None:
    """Let Airflow read connections and Variables from its database, as it does only in a process that says it may.

    A database that was never set up is left alone: Airflow would print a traceback for each Variable that it looks for.
    """
    from airflow_kafka_groups.hooks.airflow_lookups import has_no_tables

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
    """Read a file of properties: ``name=value`` in each line; ``#`` begins a comment line.

    Raises ``ConfigurationError`` naming the line, never a value, and for a file that cannot be read.
    """
    from airflow_kafka_groups.kafka.cluster.librdkafka import check_java_names

    try:
        content = read_local(path, most=LARGEST, may_be_pipe=True).decode("utf-8-sig")
        readable = path.stat().st_mode & _OTHERS_MAY_READ
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError("--config", str(path), f"cannot be read: {why}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(content.split("\n"), start=1):  # other ends of lines may be part of a password
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator or not _PROPERTY.fullmatch(name):  # part of a secret, where another character separates them
            check_java_names(found)  # their values may go on in the next lines
            raise ConfigurationError("--config", str(path), f"line {number} is not of the form name=value")
        if name in found:
            raise ConfigurationError("--config", str(path), f"line {number} sets {name} a second time")
        found[name] = value
    if readable and any(word in name for name in found for word in _SECRETS):
        say(f"warning: other users may read {path}, which has secrets: chmod 600 {path}")
    return found
