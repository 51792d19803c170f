"""The session of a job: the one that runs, such as a notebook's, or one that is started, and ends with the job."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from subprocess import Popen
from threading import Thread
from traceback import walk_tb

from pyspark import SparkConf
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.kafka.properties import options_hidden
from airflow_kafka_groups.spark.session.preflight import SETTINGS
from airflow_kafka_groups.spark.session.settings import running_session, settings_kept

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
_STOPPED = "stopped SparkContext"
"""What Spark says, after a minute, where no master has answered."""


@contextmanager
def session_of(job: str, imports: Sequence[str] = ()) -> Iterator[SparkSession]:
    """Return the session until the end of the block, and put the settings back that the job changes.

    :param job: its name, for a session that is started.
    :param imports: modules to import while the JVM starts it, which takes as long. None of them imports pyspark, whose
        modules import each other: two threads would each see halves of them.

    Raises ``JobError`` if Spark does not start.
    """
    with ExitStack() as ends:
        spark = running_session()
        if spark is None:
            Thread(target=_import, args=(imports,), daemon=True).start()
            spark = _start(job)
            ends.callback(spark.stop)
        ends.enter_context(settings_kept(spark, *SETTINGS))
        ends.enter_context(options_hidden(spark))
        yield spark


def _import(modules: Sequence[str]) -> None:
    with suppress(ImportError):  # reported by what needs it
        for name in modules:
            import_module(name)


def _start(job: str) -> SparkSession:
    # Recording the Python call site of each column is useful only in notebooks, and doubles the calls to the JVM.
    try:
        return SparkSession.builder.appName(job).config(_CALL_SITES, "false").getOrCreate()
    except (OSError, *SPARK_ERRORS) as exc:  # also where SPARK_HOME has no spark-submit
        print(exc, file=sys.stderr)
        raise JobError(f"Spark does not start: {first_line(exc)} {_remedy(exc)}") from exc
    except KeyboardInterrupt as exc:
        # The JVM would neither start nor end: pyspark has removed the folder in which it writes its port.
        for frame, _ in walk_tb(exc.__traceback__):
            jvm = frame.f_locals.get("self" if frame.f_code.co_name == "__init__" else "proc")
            if isinstance(jvm, Popen) and jvm.pid:  # started, although Popen() may not have returned yet
                jvm.kill()  # nothing else leads to it yet
        raise


def _remedy(exc: Exception) -> str:
    if _STOPPED not in first_line(exc):
        return "Check that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and what it wrote above"
    master = SparkConf().get("spark.master")
    return f"The cluster did not take the application: check that {master} is its master, runs, and can be reached"
