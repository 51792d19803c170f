"""A session that starts when something needs it.

Spark takes four seconds to start, and a judgement of a small cluster a fraction of one. It needs Spark for a storage
that is not a local disk, for a table, for Kafka's log of commits, and on a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.logs import logged
from airflow_kafka_groups.spark.session.packages import require_pyspark
from airflow_kafka_groups.spark.session.this_machine import ThisMachine, this_machine
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
_STOPPED = "stopped SparkContext"
"""What Spark says, after a minute, where no master has answered."""


class SessionOnDemand(AbstractContextManager["SessionOnDemand"]):
    """The session of a job, until the end of the block.

    :param job: its name, for Spark.
    :param found: a session that is there, such as a notebook's, and stays. Default: the running one, if any.
    :param machine: what a session would be, whatever runs and is configured here. Default: what that says.
    """

    def __init__(self, job: str, found: SparkSession | None = None, *, machine: ThisMachine | None = None) -> None:
        self._job, self._found, self._machine = job, found, machine
        if machine is None:
            self._found = found or _running_session()
            self._machine = None if self._found is not None or _has_jvm() else this_machine()
        self._started: SparkSession | None = None
        self._prepared: SparkSession | None = None
        self._ends = ExitStack()
        self.warnings: list[str] = []
        """What was noticed when it started."""

    def __exit__(self, *_: Any) -> None:
        self._ends.close()

    def get(self, *, for_kafka: bool = False) -> SparkSession:
        """Return the session, in UTC.

        :param for_kafka: whether it will read Kafka; of interest when it is first asked for. Default false.

        Raises ``JobError`` if Spark does not start, for a session of Spark Connect, and without Kafka's connector.
        """
        if self._prepared is None:
            from airflow_kafka_groups.spark.session.preflight import prepare, prepare_kafka

            spark = self.start()
            self.warnings += logged((prepare_kafka if for_kafka else prepare)(spark))
            self._prepared = spark
        return self._prepared

    def start(self) -> SparkSession:
        """Return the session as it is. Raises ``JobError`` if Spark does not start."""
        if self._started is None:
            self._started = self._start()
        return self._started

    def of_cluster(self) -> SparkSession | None:
        """Return the session if it runs on more than this machine, or is there anyway."""
        return self.get() if self._machine is None else self._started

    def storage(self, path: str) -> Storage:
        """Return the storage of a path."""
        if self._machine is not None and self._started is None:
            has_scheme = ":" in path.partition("/")[0]
            if path.startswith("file:/") if has_scheme else self._machine.has_paths:
                return LocalStorage()
        from airflow_kafka_groups.spark.hadoop_storage import storage_of

        return storage_of(self.get(), path)

    def require_shared(self, path: str) -> None:
        """Verify that executors on other machines, if any, can access the folder of a job's output.

        Raises ``StorageError`` if they cannot read what the driver writes.
        """
        if (spark := self.of_cluster()) is not None:
            from airflow_kafka_groups.spark.hadoop_storage import require_shared

            require_shared(spark, path)

    @property
    def cores(self) -> int | None:
        """How many of this machine's cores to use; ``None`` for all."""
        if (spark := self.of_cluster()) is None:
            return self._machine.cores if self._machine else None
        from airflow_kafka_groups.spark.session.settings import runs_locally

        # With fewer of them, or with a thousand partitions.
        return int(spark.sparkContext.defaultParallelism) if runs_locally(spark) else None

    def _start(self) -> SparkSession:
        require_pyspark()
        from pyspark.sql import SparkSession

        from airflow_kafka_groups.spark.errors import SPARK_ERRORS
        from airflow_kafka_groups.spark.kafka.properties import options_hidden
        from airflow_kafka_groups.spark.session.preflight import SETTINGS
        from airflow_kafka_groups.spark.session.settings import settings_kept

        spark = self._found or _running_session()  # a user may have started one by now
        if spark is None:
            # Recording the Python call site of each column is useful only in notebooks, and doubles the calls to the
            # JVM.
            try:
                spark = SparkSession.builder.appName(self._job).config(_CALL_SITES, "false").getOrCreate()
            except (OSError, *SPARK_ERRORS) as exc:  # also where SPARK_HOME has no spark-submit
                print(exc, file=sys.stderr)
                raise JobError(f"Spark does not start: {first_line(exc)} {_remedy(exc)}") from exc
            except KeyboardInterrupt as exc:
                # The JVM would neither start nor end: pyspark has removed the folder in which it writes its port.
                for frame, _ in walk_tb(exc.__traceback__):
                    if frame.f_code.co_name == "launch_gateway" and (jvm := frame.f_locals.get("proc")):
                        jvm.kill()  # nothing else leads to it yet
                raise
            self._ends.callback(spark.stop)
        self._ends.enter_context(settings_kept(spark, *SETTINGS))
        self._ends.enter_context(options_hidden(spark))
        return spark


def _remedy(exc: Exception) -> str:
    if _STOPPED not in first_line(exc):
        return "Check that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and what it wrote above"
    from pyspark import SparkConf

    master = SparkConf().get("spark.master")
    return f"The cluster did not take the application: check that {master} is its master, runs, and can be reached"


def _has_jvm() -> bool:
    """Return whether this process has a JVM, which keeps what its first session was configured with."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._jvm is not None


def _running_session() -> SparkSession | None:
    if sys.modules.get("pyspark") is None:
        return None
    from airflow_kafka_groups.spark.session.settings import running_session

    return running_session()


class NoSession(SessionOnDemand):
    """No session: a job that runs with it needs no Spark, or fails.

    :param job: its name.
    :param storage: returns the storage of a path.
    :param why: why there is none, as a sentence's end.
    """

    def __init__(self, job: str, storage: Callable[[str], Storage], why: str) -> None:
        super().__init__(job, machine=ThisMachine(cores=None, has_paths=True))
        self._storage_of, self._why = storage, why

    def start(self) -> SparkSession:
        """Raise ``JobError``."""
        raise JobError(f"this needs Spark, and runs without: {self._why}")

    def storage(self, path: str) -> Storage:
        """Return the storage of a path."""
        return self._storage_of(path)
