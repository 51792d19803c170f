"""Whether what Airflow calls missing is missing.

Airflow goes through its secrets backends, ignores the error of each, and says in the end that there is no such
connection, or Variable: also where its API server, its database or a vault is away. So each is asked once more, by
itself, and what it raises is the reason for which nothing is known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import AirflowUnavailableError, ConfigurationError, KafkaGroupsError

if TYPE_CHECKING:
    from airflow.sdk.execution_time.comms import GetConnection, GetVariable

HOOK_NAME = "Kafka consumer groups"
_FIELD = "kafka_groups_conn_id"
_DATABASE = "MetastoreBackend"
_AGAIN = "it was there at a second look"


def lookup_error(conn_id: str, found: Exception, field: str = _FIELD, kind: str = HOOK_NAME) -> KafkaGroupsError:
    """Return the error of a connection of this kind that could not be looked up: Airflow raised ``found``."""
    from airflow.sdk.execution_time.comms import GetConnection

    if isinstance(found, PermissionError):
        return KafkaGroupsError(f"the connection {conn_id!r} cannot be read: Airflow refuses it to this task ({found})")
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if os.environ.get(variable):  # Airflow drops what is wrong with it, and goes on looking
        remedy = (
            "Airflow cannot read a connection out of this environment variable: write a URI, or a JSON object whose "
            "host, login and password are strings, and all of whose names Airflow's connections have"
        )
        return ConfigurationError(variable, None, remedy)
    if (why := why_unclear(GetConnection(conn_id=conn_id))) is not None:
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


def why_unclear(request: GetConnection | GetVariable) -> str | None:
    """Return why what Airflow calls missing may exist; ``None`` if nothing says so."""
    from airflow.sdk.execution_time import supervisor
    from airflow.sdk.execution_time.comms import GetConnection
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend

    for backend in supervisor.ensure_secrets_backend_loaded():
        name, why = type(backend).__name__, None
        try:
            if isinstance(backend, ExecutionAPISecretsBackend):  # hides what the API server answers: ask what it asks
                why = _why_no_answer(request)
            elif isinstance(request, GetConnection):
                why = backend.get_connection(conn_id=request.conn_id) and _AGAIN
            elif backend.get_variable(key=request.key) is not None:
                why = _AGAIN
        except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise; its text may have a secret
            if name == _DATABASE and has_no_tables():
                continue
            why = type(exc).__name__
        if why is not None:
            return f"{name}: {why}"
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
        return _AGAIN
    if answer.error in (ErrorType.CONNECTION_NOT_FOUND, ErrorType.VARIABLE_NOT_FOUND):
        return None
    return str(answer.error.value)


STOP_VARIABLE = "kafka_groups_stop"
"""The Airflow Variable that stops deletions, unless an operator or a command names another one."""

_GO_ON = frozenset({"", "0", "false", "no", "off"})


def why_variable_stops(name: str | None) -> str | None:
    """Return why an Airflow Variable stops deletions, ``None`` if it does not exist or says no.

    An error, or a value that is neither yes nor no, stops them: every doubt keeps a group. ``None`` looks at none.
    """
    if name is None:
        return None
    from airflow.sdk import Variable
    from airflow.sdk.execution_time.comms import GetVariable

    try:
        value = Variable.get(name, default=None)
        why = why_unclear(GetVariable(key=name)) if value is None else None
    except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise
        why = type(exc).__name__
    if why is not None:
        return f"the Airflow Variable {name!r} could not be read: {why}"
    if value is None or str(value).strip().lower() in _GO_ON:
        return None
    return f"the Airflow Variable {name!r} is set"
