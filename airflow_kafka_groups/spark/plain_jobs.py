"""Jobs that need no Spark, run in this process, on any storage that Airflow knows."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, MaintenanceError, StorageError
from airflow_kafka_groups.storage.layout import StoragePath

_NEED_SPARK = ("--table", "--observations-table", "--kafka-properties")


def needs_no_spark(arguments: Sequence[str]) -> bool:
    """Return whether a job can do without, by its name and its options."""
    given = {word.partition("=")[0] for word in arguments}
    return len(arguments) > 1 and arguments[0] == "judge_staleness" and not given.intersection(_NEED_SPARK)


def base_of(arguments: Sequence[str]) -> str | None:
    """Return the ``--base`` of a job's arguments, with the Airflow connection in it; ``None`` if it has none."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--base", nargs="?")
    found: str | None = parser.parse_known_args(arguments)[0].base
    return found


def run_plain_job(arguments: Sequence[str], base: StoragePath) -> dict[str, Any]:
    """Run a job, by its name and arguments, below the folder that ``--base`` names, and return its summary.

    Raises ``ConfigurationError`` for wrong arguments, ``MaintenanceError`` if the job fails, and what may pass as
    ``StorageError``, or as ``KafkaGroupsError`` if it fails for some of several clusters.
    """
    from airflow_kafka_groups import exceptions as errors
    from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage, storage_below

    name, *options = arguments
    job = import_module(f"airflow_kafka_groups.spark.jobs.{name}")
    with redirect_stderr(StringIO()) as said:
        try:
            asked = job.parse_arguments(options)
        except SystemExit:  # its last line, below how the program is used
            why = said.getvalue().strip().rpartition(f"{name}: error: ")[2] or "asks for help"
            raise ConfigurationError(name, None, f"has a wrong argument: {why}") from None

    def storage(_: str) -> Storage:  # all paths of the job are below its base
        return LocalStorage() if isinstance(base, Path) else storage_below(base, asked.base)

    try:
        summary: dict[str, Any]
        summary = job.run_here(storage, asked)
    except errors.ArgumentError as exc:
        raise ConfigurationError(name, asked.base, str(exc)) from exc
    except errors.StorageError as exc:
        raise StorageError(f"{name}: {exc}") from exc
    except errors.JobError as exc:
        raise MaintenanceError(f"{name}: {exc}") from exc
    if failed := summary.get("failed"):
        raise KafkaGroupsError(f"{name} failed for {', '.join(failed)}: {failed}")
    return summary
