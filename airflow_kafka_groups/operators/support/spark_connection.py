"""The Spark connection of a job, and its submission; without a connection, Spark runs on this machine."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.arguments import check_url, read_mapping
from airflow_kafka_groups.spark.private_files import hide_conf, is_secret, private_folder
from airflow_kafka_groups.spark.requirements import OLDEST_JAVA, find_java, quick_driver

LOCAL = "local[*]"
_YARN_ATTEMPTS = "spark.yarn.maxAppAttempts"
_SPARK = Path(__file__).parents[2] / "spark"
PROGRESS = {"spark.ui.showConsoleProgress": "true", "spark.ui.consoleProgress.update.interval": "10000"}
"""By these, Spark writes a bar of the running stages to the log every ten seconds."""

_YARN = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DRIVER_ENV = {"yarn": "spark.yarn.appMasterEnv.", "k8s": "spark.kubernetes.driverEnv."}
_TRACKED_BY_ITS_OPERATOR = ("track_driver_via_k8s_api", "yarn_track_via_rm_api")
_logger = logging.getLogger(__name__)


def read_spark_arguments(field: str, value: Any) -> Mapping[str, Any]:
    """Read the arguments of Spark's hook, and have Airflow mask the secrets in them: it knows other names only.

    Raises ``ConfigurationError`` for a URL with a password or a token in the others, which are on the command line.
    """
    arguments = dict(read_mapping(field, value))
    for argument, given in arguments.items():
        if argument not in ("conf", "env_vars"):
            for each in given if isinstance(given, list | tuple) else (given,):
                check_url(f"{field}, {argument}", each)
            continue
        arguments[argument] = {} if given is None else read_mapping(f"{field}, {argument}", given)
        for name, secret in arguments[argument].items():
            if isinstance(secret, str) and is_secret(name, secret):
                from airflow.sdk.log import mask_secret

                mask_secret(secret)
    return arguments


def submit_hook(arguments: Mapping[str, Any], application_args: list[str]) -> Any:
    """Build the ``SparkSubmitHook`` of a job.

    Airflow's hook goes to YARN when the connection does not exist, which fails where no YARN is configured. There the
    job runs on this machine, and the log says so.
    """
    arguments = {name: value for name, value in arguments.items() if (name, value) != ("conn_id", None)}
    for name in _TRACKED_BY_ITS_OPERATOR:
        if arguments.get(name):
            raise ConfigurationError(f"spark, {name}", True, "leave it out: spark-submit itself waits for the job here")
    try:
        from airflow.providers.apache.spark.hooks import spark_submit
    except ImportError as exc:
        remedy = 'requires Airflow\'s Spark provider: pip install "airflow-kafka-groups[spark]".'
        remedy += " With spark_conn_id null, judge_staleness runs in the task, without it"
        raise ConfigurationError("spark", None, remedy) from exc
    hook, place = _with_progress(spark_submit.SparkSubmitHook), Place(arguments)
    if place.is_missing:
        text = "There is no Spark connection %r, so the job runs on this machine. Create it to run the job on a cluster"
        _logger.warning(text, place.conn_id)
        if problem := _no_java({**os.environ, **(arguments.get("env_vars") or {})}):
            raise ConfigurationError("Java", None, f"{problem}: install it, or set JAVA_HOME")
        hook = _on_this_machine(hook)
    if place.is_local:
        variables = arguments.get("env_vars") or {}
        arguments = {**arguments, "env_vars": {**variables, **quick_driver({**os.environ, **variables})}}
    made = hook(**{**arguments, **({"env_vars": None} if place.driver_env else {})}, application_args=application_args)
    if place.driver_env == _DRIVER_ENV["yarn"]:
        made._env = arguments.get("env_vars")  # spark-submit itself reads some, such as HADOOP_CONF_DIR
    return made


class SparkJob:
    """The job of a task, which is submitted with private files, and ended when the task is killed."""

    def __init__(self) -> None:
        self._hook: Any = None
        self._killed = False

    @contextmanager
    def prepared(
        self,
        application: str,
        words: Sequence[str],
        arguments: Mapping[str, Any],
        write: Callable[[Path], Mapping[str, Path]],
        *,
        for_executors: bool = False,
    ) -> Iterator[Callable[[], None]]:
        """Write the private files of a job, and yield what submits it and waits for it.

        :param write: writes files into a private folder, each for an option of the job.
        :param for_executors: ship these files in any deploy mode. Default: where the driver is elsewhere.
        """
        job, path = application_of(application)
        # A task is retried by Airflow; YARN would start a second driver that this task does not see.
        conf = {_YARN_ATTEMPTS: "1", **PROGRESS, **(arguments.get("conf") or {})}
        given, place = dict(arguments), Place(arguments)
        with private_folder() as folder:
            given["conf"], given["properties_file"] = hide_conf(
                conf,
                arguments.get("properties_file"),
                folder,
                env_vars=arguments.get("env_vars"),
                driver_env=place.driver_env,
            )
            files = write(folder)
            if shipped := bool(files) and (for_executors or place.deploy_mode == "cluster"):
                given["files"] = ",".join(filter(None, [arguments.get("files"), *map(str, files.values())]))
            options = [(option, file.name if shipped else str(file)) for option, file in files.items()]
            self._hook = submit_hook(given, [*job, *words, *(word for option in options for word in option)])
            self._hook.reads_defaults = not arguments.get("properties_file") and given["properties_file"] is not None
            yield partial(self._submit, path)

    def _submit(self, path: str) -> None:
        self.require_alive()
        self._hook.submit(path)

    def require_alive(self) -> None:
        """Raise ``KafkaGroupsError`` if the task was killed."""
        if self._killed:
            raise KafkaGroupsError("the task was killed before the job was submitted: nothing was started")

    def kill(self) -> None:
        """Stop the job, or do not begin it."""
        self._killed = True
        if self._hook is not None:
            self._hook.on_kill()


def application_of(name: str) -> tuple[list[str], str]:
    """Return the first words of a job's arguments, and the application to submit: of this package, or the user's."""
    if name.endswith((".py", ".jar")):
        return [], name
    if not (_SPARK / "jobs" / f"{name}.py").is_file():
        raise ConfigurationError("application", name, "is neither a job of this package nor a path")
    return [name], str(_SPARK / "application.py")


def why_not_here(arguments: Mapping[str, Any]) -> str | None:
    """Return why a job that needs no Spark runs without, as a sentence's end; ``None`` if Spark can run anywhere."""
    if arguments.get("conn_id", "") is None:
        return "there is to be none: spark_conn_id is null"
    if not Place(arguments).is_missing:
        return None
    if find_spec("airflow.providers.apache.spark") is None:
        return "Airflow's Spark provider is not installed"
    binary = str(arguments.get("spark_binary") or "spark-submit")
    environment = {**os.environ, **(arguments.get("env_vars") or {})}
    if shutil.which(binary, path=environment.get("PATH")) is None:
        return f"there is no {binary}"
    return _no_java(environment)


def _no_java(environment: Mapping[str, str]) -> str | None:
    if find_java(environment) is not None:
        return None
    home = environment.get("JAVA_HOME")
    where = f"JAVA_HOME is {home!r}, without a java in it" if home else "there is none on the PATH"
    return f"Spark needs Java {OLDEST_JAVA} or newer on this machine, and {where}"


class Place:
    """Where a job runs, by its arguments, the Spark connection and YARN's configuration.

    ``driver_env`` is the beginning of the properties by which a driver elsewhere gets its environment, if it is.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        from airflow.sdk import BaseHook
        from airflow.sdk.exceptions import AirflowNotFoundException

        self.conn_id = str(arguments.get("conn_id") or "spark_default")
        has_yarn = any(os.environ.get(name) for name in _YARN)
        self.is_missing = self.is_local = not has_yarn
        self.extra: dict[str, Any] = {}
        master = "yarn" if has_yarn else LOCAL
        with suppress(AirflowNotFoundException):
            connection = BaseHook.get_connection(self.conn_id)
            host = str(connection.host or "")
            master, self.is_missing, self.is_local = f"{connection.conn_type}://{host}", False, host.startswith("local")
            self.extra = dict(connection.extra_dejson)
        self.deploy_mode = str(arguments.get("deploy_mode") or self.extra.get("deploy-mode") or "client")
        self.driver_env = next((prefix for name, prefix in _DRIVER_ENV.items() if name in master), None)


def _with_progress(hook: Any) -> Any:
    class ProgressHook(hook):  # type: ignore[misc]  # Airflow's hook is only known when it is imported
        """Airflow's hook, which waits for the job and ends all of it, without the blank lines that Spark writes."""

        reads_defaults = False
        """Whether spark-submit reads ``spark-defaults.conf`` besides a file of properties, which would replace it."""

        _was_killed = False

        def _build_spark_submit_command(self, application: str) -> list[str]:
            binary, *words = super()._build_spark_submit_command(application)
            return [binary, *(["--load-spark-defaults"] if self.reads_defaults else []), *words]

        def submit(self, application: str = "", **kwargs: Any) -> Any:
            """Run the job. Of a standalone cluster's driver, newer hooks leave the waiting to Airflow's operator."""
            driver = super().submit(application, **kwargs)
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
