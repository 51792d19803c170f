"""Run the four programs of ``airflow standalone``, and end them with all their children when the owner ends.

Each of the four imports Airflow for some seconds, and each of their tasks and parsers imports this package and its
libraries. Here, they are forks of one process that has imported all of it.

The owner holds this process's stdin; its end, by whatever cause, is the sign to stop. What has not ended some time
after SIGTERM is killed with the process group, of which this process has to be the leader.
"""

import gc
import importlib
import multiprocessing
import os
import pkgutil
import signal
import sys
import time
from multiprocessing import connection

from airflow.configuration import write_default_airflow_configuration_if_needed

import airflow_kafka_groups

STOP_TIMEOUT_S = 20.0
PROGRAMS = ("scheduler", "dag-processor", "api-server", "triggerer")
# What runs in a Python of its own, and files that make DAGs.
_NOT_IMPORTED = tuple(f"airflow_kafka_groups.{name}" for name in ("spark", "cli", "example_dags"))
_IMPORTED = (
    *(f"airflow.cli.commands.{name.replace('-', '_')}_command" for name in PROGRAMS),
    "airflow.dag_processing.processor",
    "airflow.executors.local_executor",
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.providers.smtp.notifications.smtp",
    "airflow.providers.standard.operators.empty",
    "airflow.providers.standard.operators.hitl",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
)


def main() -> int:
    """Run Airflow until stdin or one of its programs ends; return the exit code."""
    write_default_airflow_configuration_if_needed()  # with the keys that all programs share, and that imports read
    import_everything()
    migration = start("db", "migrate")
    migration.join()
    if migration.exitcode:
        return 1
    programs = [start(name) for name in PROGRAMS]
    connection.wait([sys.stdin.fileno(), *(program.sentinel for program in programs)])
    for program in programs:
        program.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for program in programs:
        program.join(max(0.0, deadline - time.monotonic()))
    os.killpg(os.getpgid(0), signal.SIGKILL)  # itself too
    return 1


def import_everything() -> None:
    """Import what the programs import, without the garbage collector: all of it stays."""
    gc.disable()
    for name in _IMPORTED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(airflow_kafka_groups.__path__, "airflow_kafka_groups."):
        if not module.name.startswith(_NOT_IMPORTED) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()
    gc.enable()


def start(*arguments: str) -> multiprocessing.context.ForkProcess:
    """Start a program of Airflow's command line as a fork of this process."""
    program = multiprocessing.get_context("fork").Process(target=run, args=arguments)
    program.start()
    return program


def run(*arguments: str) -> None:
    from airflow.__main__ import main as airflow

    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The scheduler takes a process of any other name for a worker of its own, and does not obey SIGTERM.
    multiprocessing.current_process().name = "MainProcess"
    sys.argv = ["airflow", *arguments]
    airflow()  # type: ignore[no-untyped-call]  # Airflow's own


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner's to handle
    sys.exit(main())
