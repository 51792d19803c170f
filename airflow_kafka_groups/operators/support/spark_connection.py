"""The Spark connection of a job; without one, Spark runs on this machine."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ArgumentError, ConfigurationError
from airflow_kafka_groups.spark.driver_jvm import quick_driver
from airflow_kafka_groups.spark.spark_versions import OLDEST_JAVA

LOCAL = "local[*]"
PROGRESS = {
    "spark.ui.showConsoleProgress": "true",
    "spark.ui.consoleProgress.update.interval": "10000",
}
"""Properties by which Spark writes a bar of the running stages to the log, every ten seconds while they proceed."""

_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DRIVER_ENV = {"yarn": "spark.yarn.appMasterEnv.", "k8s": "spark.kubernetes.driverEnv."}
_TRACKED_BY_ITS_OPERATOR = ("track_driver_via_k8s_api", "yarn_track_via_rm_api")
_logger = logging.getLogger(__name__)


def submit_hook(arguments: Mapping[str, Any], application_args: list[str]) -> Any:
    """Build the ``SparkSubmitHook`` of a job.

    Airflow's hook goes to YARN when the connection does not exist, which fails where no YARN is configured. There the
    job runs on this machine, and the log says so.

    :param application_args: the job's own arguments.

    Raises ``ConfigurationError`` if Airflow's Spark provider is not installed, if this machine needs Java and has none,
    and for a way to follow the job that only Airflow's operator has.
    """
    arguments = {name: value for name, value in arguments.items() if (name, value) != ("conn_id", None)}
    for name in _TRACKED_BY_ITS_OPERATOR:
        if arguments.get(name):
            raise ConfigurationError(f"spark, {name}", True, "leave it out: spark-submit itself waits for the job here")
    try:
        from airflow.providers.apache.spark.hooks import spark_submit
    except ImportError as exc:
        remedy = 'requires Airflow\'s Spark provider: pip install "airflow-kafka-groups[spark]".'
        remedy += " With spark_conn_id null, judge_staleness and lag_report run in the task, without it"
        raise ConfigurationError("spark", None, remedy) from exc
    hook = _with_progress(spark_submit.SparkSubmitHook)
    connection = _connection(arguments)
    if connection is None and not _yarn_is_configured():
        _logger.warning(
            "There is no Spark connection %r, so the job runs on this machine (%s). Create the connection to run it "
            "on a cluster",
            _conn_id(arguments),
            LOCAL,
        )
        if problem := _no_java({**os.environ, **(arguments.get("env_vars") or {})}):
            raise ConfigurationError("Java", None, f"{problem}: install it, or set JAVA_HOME")
        hook = _on_this_machine(hook)
    if _is_local(connection):
        variables = arguments.get("env_vars") or {}
        arguments = {**arguments, "env_vars": {**variables, **quick_driver({**os.environ, **variables})}}
    prefix = driver_env(arguments)
    try:
        made = hook(**{**arguments, **({"env_vars": None} if prefix else {})}, application_args=application_args)
    except TypeError as exc:
        remedy = f"give what Airflow's SparkSubmitHook takes: {exc}"
        raise ConfigurationError("spark", None, remedy) from exc
    if prefix == _DRIVER_ENV["yarn"]:
        made._env = arguments.get("env_vars")  # spark-submit itself reads some, such as HADOOP_CONF_DIR
    return made


def wrong_argument(hook: Any) -> str | None:
    """Return why a job of this package refused an argument before it ended; ``None`` if it ended otherwise.

    :param hook: what has submitted it.
    """
    started = getattr(hook, "_submit_sp", None)
    if started is None or started.returncode != ArgumentError.exit_code:
        return None
    lines = reversed(getattr(hook, "_last_submit_log_lines", ()))  # newer versions of Airflow's hook have them
    return next((said for line in lines if (said := line.partition(": error: ")[2])), "see its last line above")


def why_not_here(arguments: Mapping[str, Any]) -> str | None:
    """Return why a job that needs no Spark runs without, as a sentence's end; ``None`` if Spark can run anywhere."""
    if arguments.get("conn_id", "") is None:
        return "there is to be none: spark_conn_id is null"
    if _connection(arguments) is not None or _yarn_is_configured():
        return None
    if find_spec("airflow.providers.apache.spark") is None:
        return "Airflow's Spark provider is not installed"
    binary = str(arguments.get("spark_binary") or "spark-submit")
    environment = {**os.environ, **(arguments.get("env_vars") or {})}
    if shutil.which(binary, path=environment.get("PATH")) is None:
        return f"there is no {binary}"
    return _no_java(environment)


def _no_java(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if found is not None and Path(found).exists():
        return None
    where = f"JAVA_HOME is {home!r}, without a java in it" if home else "there is none on the PATH"
    return f"Spark needs Java {OLDEST_JAVA} or newer on this machine, and {where}"


def deploy_mode(arguments: Mapping[str, Any]) -> str:
    """Return the deploy mode of the arguments or of the Spark connection."""
    return str(arguments.get("deploy_mode") or connection_extra(arguments).get("deploy-mode") or "client")


def driver_env(arguments: Mapping[str, Any]) -> str | None:
    """Return the beginning of the properties by which a driver elsewhere gets its environment; ``None`` for one here.

    Airflow's hook writes these properties on the command line.
    """
    connection = _connection(arguments)
    if connection is None:
        master = "yarn" if _yarn_is_configured() else LOCAL
    else:
        master = f"{connection.conn_type}://{connection.host or ''}"
    return next((prefix for name, prefix in _DRIVER_ENV.items() if name in master), None)


def connection_extra(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra of the Spark connection; nothing if it does not exist."""
    connection = _connection(arguments)
    return {} if connection is None else dict(connection.extra_dejson)


def _is_local(connection: Any) -> bool:
    """Return whether driver and executors are one JVM on this machine."""
    return not _yarn_is_configured() if connection is None else str(connection.host or "").startswith("local")


def _yarn_is_configured() -> bool:
    return any(os.environ.get(name) for name in _YARN)


def _conn_id(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("conn_id") or "spark_default")


def _connection(arguments: Mapping[str, Any]) -> Any:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return BaseHook.get_connection(_conn_id(arguments))
    except AirflowNotFoundException:
        return None


def _with_progress(hook: Any) -> Any:
    class ProgressHook(hook):  # type: ignore[misc]  # Airflow's hook is only known when it is imported
        """Airflow's hook, which waits for the job and ends all of it, without the blank lines that Spark writes."""

        _was_killed = False

        def submit(self, application: str = "", **kwargs: Any) -> Any:
            """Run the job. Of a standalone cluster's driver, newer hooks leave the waiting to Airflow's operator."""
            try:
                driver = super().submit(application, **kwargs)
            except FileNotFoundError as exc:
                remedy = (
                    "is not there: install pyspark where the task runs, or name the spark-submit of an installation"
                )
                raise ConfigurationError("spark_binary", exc.filename, remedy) from exc
            if getattr(self, "_should_track_driver_status", False):
                self._start_driver_status_tracking()  # returns at once if it has been waited for
                if self._driver_status != "FINISHED":
                    raise RuntimeError(f"Spark's driver {self._driver_id} ended as {self._driver_status}")
            return driver

        def on_kill(self) -> None:
            """Kill the job. Airflow's hook kills the JVM, and a driver in Python goes on until it needs that."""
            import psutil  # type: ignore[import-untyped]

            self._was_killed, below = True, []
            started = getattr(self, "_submit_sp", None)
            if started is not None and started.poll() is None:  # of one that has ended, another process may have the id
                with suppress(psutil.Error):
                    below = psutil.Process(started.pid).children(recursive=True)
            super().on_kill()
            for process in below:  # after the JVM, which would take the driver's end for an error of the job
                with suppress(psutil.Error):
                    process.kill()

        def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
            if self._was_killed:  # when spark-submit was being started, and so was not known yet
                self.on_kill()
            super()._process_spark_submit_log(line for line in itr if line.strip())

    return ProgressHook


def _on_this_machine(hook: Any) -> Any:
    from airflow.sdk import Connection

    class LocalSparkHook(hook):  # type: ignore[misc]  # Airflow's hook is only known when it is imported
        """Airflow's hook with a connection that nobody has to create."""

        @classmethod
        def get_connection(cls, conn_id: str) -> Any:
            return Connection(conn_id=conn_id, conn_type="spark", host=LOCAL)

    return LocalSparkHook
