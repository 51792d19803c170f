"""What Airflow calls missing is asked for again: it says so, too, where its API, database or a vault is away."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection, GetVariable

from airflow_kafka_groups.exceptions import AirflowUnavailableError, ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.airflow_lookups import why_unclear, why_variable_stops
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.hooks.retries import FINAL

AWAY = ErrorResponse(
    error=ErrorType.API_SERVER_ERROR, detail={"status_code": None, "exception_type": "ConnectError", "message": "x"}
)


class Supervisor:
    """The process that asks Airflow's API server for a task, as far as lookups need it."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def send(self, msg: Any) -> Any:
        self.asked.append(msg)
        return self.answer(msg)

    async def asend(self, msg: Any) -> Any:
        return self.send(msg)


def missing(msg: Any) -> Any:
    what = ErrorType.CONNECTION_NOT_FOUND if isinstance(msg, GetConnection) else ErrorType.VARIABLE_NOT_FOUND
    return ErrorResponse(error=what, detail={})


def away(_: Any) -> Any:
    raise AirflowRuntimeError(AWAY)


def denied(_: Any) -> Any:
    return ErrorResponse(error=ErrorType.PERMISSION_DENIED, detail={"status_code": 403})


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    one = Supervisor(missing)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", one, raising=False)
    return one


async def fails(error: type[Exception], match: str) -> Exception:
    """Look a connection up as a task does and as a trigger does; return what is raised."""
    with pytest.raises(error, match=match):
        await KafkaGroupsHook("prod").aget_conn()
    with pytest.raises(error, match=match) as caught:
        _ = KafkaGroupsHook("prod").settings
    return caught.value


async def test_a_connection_that_is_not_there_is_an_error_of_configuration(supervisor: Supervisor) -> None:
    await fails(ConfigurationError, "there is no such connection")
    assert why_unclear(GetConnection(conn_id="prod")) is None


async def test_an_api_server_that_is_away_is_none_and_is_asked_again_by_a_retry(supervisor: Supervisor) -> None:
    supervisor.answer = away
    assert not isinstance(await fails(AirflowUnavailableError, r"'prod'.*API_SERVER_ERROR"), tuple(FINAL))


@pytest.mark.skipif(not hasattr(ErrorType, "PERMISSION_DENIED"), reason="Airflow 3.2 has no answer for a refusal")
async def test_a_refusal_of_airflow_is_an_error_of_this_package(supervisor: Supervisor) -> None:
    supervisor.answer = denied
    assert not isinstance(await fails(KafkaGroupsError, r"'prod'.*refuses"), AirflowUnavailableError)


@pytest.mark.safety
def test_a_stop_switch_that_cannot_be_asked_for_stops(supervisor: Supervisor) -> None:
    assert why_variable_stops("halt") is None
    supervisor.answer = away
    why = why_variable_stops("halt") or ""
    assert "'halt' could not be read" in why
    assert "API_SERVER_ERROR" in why


def test_what_comes_back_in_between_is_not_missing(supervisor: Supervisor) -> None:
    supervisor.answer = lambda _: object()  # whatever is no error
    assert why_unclear(GetConnection(conn_id="prod")) is not None
    assert why_unclear(GetVariable(key="halt")) is not None


def test_a_database_or_secrets_backend_that_fails_is_no_absence_either(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time import supervisor as module

    class Vault:
        def get_connection(self, conn_id: str) -> None:
            raise OSError("vault:8200 refused: token=abc")

        def get_variable(self, key: str) -> None:
            raise OSError("vault:8200 refused: token=abc")

    monkeypatch.setattr(module, "ensure_secrets_backend_loaded", lambda: [Vault()])
    with pytest.raises(AirflowUnavailableError, match=r"Vault: OSError") as caught:
        _ = KafkaGroupsHook("prod").settings
    why = why_variable_stops("halt") or ""
    assert "could not be read" in why
    assert "abc" not in why + str(caught.value)


@pytest.mark.parametrize(("tables", "unclear"), [(True, True), (False, False)])
def test_a_database_that_was_never_set_up_has_nothing(
    monkeypatch: pytest.MonkeyPatch, tables: bool, unclear: bool
) -> None:
    """Who works with connections of the environment may have none; a table that cannot be read is another thing."""
    from airflow import settings
    from airflow.sdk.execution_time import supervisor as module
    from sqlalchemy import create_engine, text

    class MetastoreBackend:
        def get_connection(self, conn_id: str) -> None:
            raise OSError("no such table")

        get_variable = get_connection

    engine = create_engine("sqlite://")
    if tables:
        with engine.begin() as one:
            one.execute(text("CREATE TABLE connection (id int)"))
    monkeypatch.setattr(settings, "get_engine", lambda: engine)
    monkeypatch.setattr(module, "ensure_secrets_backend_loaded", lambda: [MetastoreBackend()])
    assert (why_unclear(GetConnection(conn_id="prod")) is not None) is unclear


@pytest.mark.parametrize(
    "value",
    [
        '{"conn_type": "kafka_groups", "host": "b1:9092"',
        '{"conn_type": "kafka_groups", "host": ["b1:9092", "b2:9092"]}',
        '{"conn_type": "kafka_groups", "host": "b1", "login": "u", "password": 4711}',
        '{"conn_type": "kafka_groups", "hosts": "b1"}',
        "a://b://c://d",
    ],
    ids=["brace", "list", "number", "name", "uri"],
)
async def test_a_connection_of_the_environment_that_cannot_be_read_is_no_airflow_that_is_away(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """A sensor waited for it until its time was over."""
    monkeypatch.setenv("AIRFLOW_CONN_PROD", value)
    assert "4711" not in str(await fails(ConfigurationError, r"AIRFLOW_CONN_PROD: .*JSON"))


@pytest.mark.safety
def test_another_variable_may_be_named_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_HALT", "yes")
    assert why_variable_stops("halt") == "the Airflow Variable 'halt' is set"
    assert why_variable_stops(None) is None


@pytest.mark.safety
def test_a_variable_that_cannot_be_read_stops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variable, "get", Mock(side_effect=RuntimeError("the secrets backend is away: token=abc")))
    why = why_variable_stops("halt") or ""
    assert "could not be read" in why
    assert "abc" not in why
