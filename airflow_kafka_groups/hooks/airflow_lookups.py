"""Whether what Airflow calls missing is missing.

Airflow goes through its secrets backends, ignores the error of each, and says in the end that there is no such
connection, or Variable: also where its API server, its database or a vault is away. So each is asked once more, by
itself, and what it raises is the reason for which nothing is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from airflow_kafka_groups.exceptions import AirflowUnavailableError, ConfigurationError, KafkaGroupsError

HOOK_NAME = "Kafka consumer groups"
_FIELD = "kafka_groups_conn_id"
_DATABASE = "MetastoreBackend"


class _UnusableConnectionError(Exception):
    """A connection that is there, and that Airflow drops for what is in it."""


def checked_connection_id(value: Any) -> str:
    """Return a connection's id. Raises ``ConfigurationError`` for what cannot be one."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(_FIELD, value, "must be the id of an Airflow connection")
    return value


def lookup_error(conn_id: str, found: Exception, field: str = _FIELD, kind: str = HOOK_NAME) -> KafkaGroupsError:
    """Return the error of a connection that could not be looked up, with a remedy.

    :param found: what Airflow raised.
    :param field: the argument that names the connection.
    :param kind: the type of the connection, as the UI shows it.
    """
    if isinstance(found, PermissionError):
        return KafkaGroupsError(f"the connection {conn_id!r} cannot be read: Airflow refuses it to this task ({found})")
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if os.environ.get(variable):  # Airflow drops what is wrong with it, and goes on looking
        remedy = (
            "Airflow cannot read a connection out of this environment variable: write a URI, or a JSON object whose "
            "host, login and password are strings, and all of whose names Airflow's connections have"
        )
        return ConfigurationError(variable, None, remedy)
    try:
        why = why_connection_unclear(conn_id)
    except _UnusableConnectionError as exc:
        return ConfigurationError(field, conn_id, f"{exc}: its host, login and password must be strings")
    if why is not None:
        return AirflowUnavailableError(
            f"the connection {conn_id!r} cannot be looked up ({why}): Airflow's API server or database, or a secrets "
            "backend, is away. Try again when it is back"
        )
    return ConfigurationError(
        field,
        conn_id,
        f"there is no such connection. Create it in the UI (Admin, Connections, type {kind!r}), with "
        f"'airflow connections add', or as the environment variable {variable}",
    )


def why_connection_unclear(conn_id: str) -> str | None:
    """Return why a connection that Airflow calls missing may exist; ``None`` if nothing says so.

    Raises ``_UnusableConnectionError`` for one that exists, and is wrong.
    """
    from airflow.sdk.execution_time.comms import GetConnection

    def look(backend: Any) -> Any:
        if (found := backend.get_connection(conn_id=conn_id)) is not None:
            try:
                found.get_uri()  # as Airflow does
            except Exception:  # noqa: BLE001  # whatever the connection has for a string
                raise _UnusableConnectionError(f"Airflow cannot use what {type(backend).__name__} has for it") from None
        return found

    return _why_unclear(look, GetConnection(conn_id=conn_id))


def why_variable_unclear(name: str) -> str | None:
    """Return why a Variable that Airflow calls missing may exist; ``None`` if nothing says so."""
    from airflow.sdk.execution_time.comms import GetVariable

    return _why_unclear(lambda backend: backend.get_variable(key=name), GetVariable(key=name))


def _why_unclear(look: Callable[[Any], Any], request: Any) -> str | None:
    from airflow.sdk.execution_time import supervisor
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend

    for backend in supervisor.ensure_secrets_backend_loaded():
        name = type(backend).__name__
        try:
            # This one hides what the API server answers: ask what it asks.
            api = isinstance(backend, ExecutionAPISecretsBackend)
            why = _why_no_answer(request) if api else None
            found = None if api else look(backend)
        except _UnusableConnectionError:
            raise
        except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise; its text may have a secret
            if name == _DATABASE and has_no_tables():
                continue
            return f"{name}: {type(exc).__name__}"
        if why is not None or found is not None:
            return f"{name}: {why or 'it was there at a second look'}"
    return None


def has_no_tables() -> bool:
    """Return whether Airflow's database can be asked, and was never set up: a shell with its connections elsewhere."""
    from airflow import settings
    from sqlalchemy import inspect

    try:
        engine = settings.get_engine()  # type: ignore[no-untyped-call]  # Airflow's own
        return not inspect(engine).has_table("connection")
    except Exception:  # noqa: BLE001  # whatever its driver raises: it cannot be asked
        return False


def _why_no_answer(request: Any) -> str | None:
    """Ask the API server. Return why its answer is not that there is no such thing, ``None`` if it is."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(request)
    except AirflowRuntimeError as exc:
        answer = exc.error
    if not isinstance(answer, ErrorResponse):
        return "it was there at a second look"
    if answer.error in (ErrorType.CONNECTION_NOT_FOUND, ErrorType.VARIABLE_NOT_FOUND):
        return None
    return str(answer.error.value)


STOP_VARIABLE = "kafka_groups_stop"
"""The Airflow Variable that stops deletions, unless an operator or a command names another one."""

_GO_ON = frozenset({"", "0", "false", "no", "off"})


def why_variable_stops(name: str | None) -> str | None:
    """Return why an Airflow Variable stops deletions, ``None`` if it does not exist or says no.

    An error, or a value that is neither yes nor no, stops them: every doubt keeps a group. Airflow 3.3 only logs the
    errors of its secrets backends, and then says that there is no such Variable, so they are asked once more.

    :param name: the Variable; ``None`` looks at none.
    """
    if name is None:
        return None
    from airflow.sdk import Variable

    try:
        value = Variable.get(name, default=None)
        why = why_variable_unclear(name) if value is None else None
    except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise
        why = type(exc).__name__
    if why is not None:
        return f"the Airflow Variable {name!r} could not be read: {why}"
    if value is None or str(value).strip().lower() in _GO_ON:
        return None
    return f"the Airflow Variable {name!r} is set"
