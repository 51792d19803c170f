"""The options of the data source ``kafka_groups``, and the columns of its rows.

Spark shows options in plans and in its UI, so none may be a secret: secrets come from a file or an environment variable
that the driver and each executor read themselves.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.admin.arrow import lag_and_lost
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import flag
from airflow_kafka_groups.kafka.transport.security import CachedToken, client_credentials
from airflow_kafka_groups.observe.patterns import check_patterns, is_regex, split_patterns
from airflow_kafka_groups.observe.snapshot.table import GroupRows
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.disk import LARGEST, read_local
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, Columns, arrow_schema, columns
from airflow_kafka_groups.storage.url_secrets import has_secret

_LEFT_OUT = ("cluster", "run_id", "members", "group_epoch", "error")
SOURCE_COLUMNS = (
    *columns({"cluster_id": "string, null"}),
    *(column for column in SNAPSHOT_COLUMNS if column.name not in _LEFT_OUT),
    *columns({"lag": "int64, null", "error": "string, null"}),
)
"""Columns as in a snapshot; ``cluster_id`` is Kafka's own id of the cluster."""

CHANGE_COLUMNS = (*columns({"change": "string", "previous_offset": "int64, null"}), *SOURCE_COLUMNS)
"""``change`` is ``new``, ``moved`` or ``removed``; a removed commit has its last observed columns."""

KEYS = ["group_id", "topic", "partition"]
VALUES = {"committed_offset": -1, "leader_epoch": -1, "metadata": ""}
"""What the changes of a stream compare, with what counts as none."""

LOG_END_NAMES = frozenset({"log_start", "log_end", "lag"})
"""The columns for which the ends of the logs are requested."""

_ROWS_PER_BATCH = 65_536


def batches(rows: GroupRows, groups: Mapping[str, Any], cluster_id: str | None, columns: Columns) -> Iterator[Any]:
    """Return rows as ``pyarrow.RecordBatch``. Spark compares their columns strictly, nullability included.

    :param groups: the columns of their groups, with an entry for each group in the order in which they were added.
    """
    import pyarrow as pa

    schema = arrow_schema(columns)
    for named in rows.chunks(groups, _ROWS_PER_BATCH):
        named["lag"], _ = lag_and_lost(*(named[name] for name in ("committed_offset", "log_start", "log_end")))
        named["cluster_id"] = pa.repeat(literal(cluster_id, pa.string()), len(named["group_id"]))
        yield pa.record_batch([named[name] for name in schema.names], schema=schema)


KAFKA_PREFIX = "kafka."
_SECRET_WORDS = ("password", "secret", "token", "jaas", ".key.pem", "oauthbearer.config")
_PRIVATE_KEY = "PRIVATE KEY"
_JSON_LIST = re.compile(r"\s*\[\s*(\"|\]\s*$)")
"""How a JSON list of patterns begins; another bracket begins a pattern, such as ``[ab]*``."""

_NAMES = (
    *("include", "exclude", "with.lag", "failures", "groups.per.partition", "config.file", "config.env"),
    *("columns", "state.path", "min.interval.seconds"),
)

_SERVERS = f"{KAFKA_PREFIX}bootstrap.servers"
_WITHOUT_LOGIN = {
    _SERVERS: "write host:port without a user, and put user and password into the file that config.file names",
    "config.file": "give the path of a file on the disk of the driver and of each executor, without a password",
    "state.path": "leave the password or token out of the URL, and give it to the driver and to each executor as the "
    "storage's own variables, such as AWS_SECRET_ACCESS_KEY",
}
"""Options whose value may have a password in it, and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read, as docs/spark/source.md has them. They are pickled into tasks, so they hold no secret."""

    settings: Mapping[str, str]
    config_file: str | None
    config_env: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    with_lag: bool
    failures: Literal["fail", "report"]
    groups_per_partition: int
    columns: Columns
    state_path: str | None
    min_interval_seconds: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options that Spark passes.

        Raises ``ConfigurationError`` naming the option, its value (not a secret's) and the remedy.
        """
        given = {name.lower(): value for name, value in options.items()}
        settings = {name.removeprefix(KAFKA_PREFIX): v for name, v in given.items() if name.startswith(KAFKA_PREFIX)}
        for name, value in settings.items():
            _refuse_secret(name, value)
        for name in given:
            if not name.startswith(KAFKA_PREFIX) and name not in _NAMES:
                raise ConfigurationError(name, None, f"no such option: use kafka.*, {', '.join(_NAMES)}")
        for name, remedy in _WITHOUT_LOGIN.items():
            if has_secret(found := given.get(name, "")) or (name == _SERVERS and "@" in found):
                raise ConfigurationError(name, None, f"Spark shows options in plans and in its UI: {remedy}")
        failures = given.get("failures", "fail").lower()
        if failures not in ("fail", "report"):
            raise ConfigurationError("failures", failures, "give fail or report")
        config_file, config_env = given.get("config.file"), given.get("config.env")
        if "bootstrap.servers" not in settings and not config_file and not config_env:
            raise ConfigurationError(
                "kafka.bootstrap.servers", None, "give brokers as host:port,…, or a config.file or config.env with them"
            )
        return cls(
            settings=settings,
            config_file=config_file,
            config_env=config_env,
            include=_patterns("include", given.get("include", "*")),
            exclude=_patterns("exclude", given.get("exclude", "[]")),
            with_lag=flag("with.lag", given),
            failures="report" if failures == "report" else "fail",
            groups_per_partition=_count("groups.per.partition", given, 1, 1_000_000, 10_000),
            columns=_columns(given.get("columns"), failures, given.get("state.path")),
            state_path=given.get("state.path"),
            min_interval_seconds=_count("min.interval.seconds", given, 0, 86_400, 5),
        )

    @property
    def needs_log_ends(self) -> bool:
        """Whether the ends of the logs are requested: for the columns that have them, unless ``with_lag`` is false."""
        return self.with_lag and any(column.name in LOG_END_NAMES for column in self.columns)

    def client_config(self) -> ClientConfig:
        """Read the settings on this machine and return the client's configuration; ``kafka.*`` options win.

        Raises ``ConfigurationError`` when the file or variable is missing or unreadable.
        """
        settings: dict[str, Any] = {}
        if self.config_file:
            settings |= _from_file(self.config_file)
        if self.config_env:
            settings |= _from_env(self.config_env)
        settings |= self.settings
        return ClientConfig.from_librdkafka(settings, token_source=_token_source)


def _refuse_secret(name: str, value: str) -> None:
    # A client's certificate may have its key in the same text.
    if any(word in name for word in _SECRET_WORDS) or _PRIVATE_KEY in value:
        raise ConfigurationError(
            f"{KAFKA_PREFIX}{name}",
            None,
            "Spark shows options in plans and in its UI: put this setting into a file and name it by config.file, or "
            "into an environment variable and name that by config.env",
        )


def _patterns(name: str, text: str) -> tuple[str, ...]:
    """Parse patterns: one, several separated by commas, or a JSON list (for patterns that contain a comma)."""
    if _JSON_LIST.match(text):
        try:
            return check_patterns(name, json.loads(text))
        except ValueError as error:
            raise ConfigurationError(name, text, f"is not a JSON list of patterns: {error}") from None
    if is_regex(text):
        return check_patterns(name, (text,))
    return check_patterns(name, split_patterns(name, text))


def _columns(text: str | None, failures: str, state_path: str | None) -> Columns:
    """Parse names of columns: Spark sends a Python source no selection, so a query would read all of them."""
    if text is None:
        return SOURCE_COLUMNS
    if state_path is not None:
        raise ConfigurationError("columns", text, "a stream has all columns: leave it out, and use select()")
    names, known = [part.strip() for part in text.split(",")], {column.name: column for column in SOURCE_COLUMNS}
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError("columns", unknown[0], f"no such column: use {', '.join(known)}")
    if failures == "report" and "error" not in names:
        raise ConfigurationError("columns", text, "add error: with failures=report, it tells a group that was not read")
    return tuple(known[name] for name in names)


def _count(name: str, given: Mapping[str, str], least: int, most: int, default: int) -> int:
    text = given.get(name, str(default))
    # Python refuses to read an integer of more than 4,300 digits.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise ConfigurationError(name, text, f"give a whole number from {least} to {most}")
    return int(text)


def _from_file(path: str) -> dict[str, Any]:
    try:
        text = read_local(_place(path), most=LARGEST).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"cannot be read on {os.uname().nodename} ({type(error).__name__}): put it on the driver and on each "
        remedy += "executor, readable by Spark's user, or hand it over by --files and give its bare name"
        raise ConfigurationError("config.file", path, remedy) from None
    return _settings(text, "config.file", path)


def _place(path: str) -> Path:
    """Return where a file is: at its path or, by its bare name, among those that ``--files`` shipped."""
    given = Path(path)
    if given.exists() or given.name != path:
        return given
    from pyspark import SparkContext, SparkFiles

    folder = SparkFiles._root_directory  # of a worker; without a session, getRootDirectory() fails
    if folder is None and SparkContext._active_spark_context is not None:
        folder = SparkFiles.getRootDirectory()
    return Path(folder, path) if folder else given


def _from_env(name: str) -> dict[str, Any]:
    text = os.environ.get(name)
    if text is None:
        remedy = f"no such environment variable on {os.uname().nodename}: set it for the driver and for each executor"
        raise ConfigurationError("config.env", name, remedy)
    return _settings(text, "config.env", name)


def _settings(text: str, option: str, where: str) -> dict[str, Any]:
    """Parse a JSON object, or lines of ``name=value``. Errors must not quote the content, which contains secrets."""
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:  # which names a place, and no content
            raise ConfigurationError(option, where, f"is no JSON object: {error}") from None
        return {str(name): value for name, value in found.items()}
    settings: dict[str, Any] = {}
    for number, line in enumerate(re.split(r"\r?\n", text), 1):  # other ends of lines may be part of a password
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ConfigurationError(option, where, f"line {number} is not name=value (a JSON object is fine, too)")
        settings[name.strip()] = value.strip()
    return settings


# Spark uses a worker for many tasks, and a token is valid for an hour: equal endpoints share one.
_endpoint_tokens = cache(lambda endpoint: CachedToken(client_credentials(endpoint)))


def _token_source(config: ClientConfig) -> Callable[[str], Any]:
    """Return the function that returns tokens, for ``ClientConfig.from_librdkafka``."""
    oauth = config.security.oauth
    if oauth is not None and isinstance(oauth.callback, str):
        return _import(oauth.callback)
    if oauth is not None and oauth.endpoint is not None:
        source: Callable[[str], Any] = _endpoint_tokens(oauth.endpoint)
        return source
    remedy = "OAUTHBEARER needs a token endpoint, or oauth_cb=package.module.function"
    raise ConfigurationError("oauth_cb", None, remedy)


def _import(path: str) -> Callable[[str], Any]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = f"cannot be imported on {os.uname().nodename}: give package.module.function ({type(error).__name__})"
        raise ConfigurationError("oauth_cb", path, remedy) from None
    if not callable(found):
        raise ConfigurationError("oauth_cb", path, "is not a function")
    return found  # type: ignore[no-any-return]
