"""Copy the package's DAG files to a folder, such as the DAGs folder of an Airflow."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.example_dags import dag_files
from airflow_kafka_groups.exceptions import ConfigurationError, StorageError
from airflow_kafka_groups.storage.file_storage import FILES


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    parser.add_argument("folder", metavar="DIR", help="folder to copy to; it is created if it does not exist")
    parser.add_argument("--only", action="append", metavar="NAME", help="copy this DAG only, e.g. lag_alert (repeat)")
    parser.add_argument("--force", action="store_true", help="overwrite files that differ")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Copy the files, and print what became of each.

    A file that exists and differs is left alone, unless ``--force`` is given; the exit code is then 3.
    """
    folder = Path(args.folder)
    files = {path.stem: path for path in dag_files()}
    chosen = args.only or list(files)
    if unknown := [name for name in chosen if name not in files]:
        raise ConfigurationError("--only", unknown[0], f"is no DAG of this package; they are {', '.join(files)}")
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError("DIR", args.folder, "is not a folder")
    rows = [(name, _copy(files[name], folder, args.force), str(folder / files[name].name)) for name in chosen]
    out.write(Table("files", ("dag", "result", "file"), rows))
    if any(result == "kept" for _, result, _ in rows):
        say("Some files exist and differ: they were kept. --force overwrites them.")
        return ExitCode.INCOMPLETE
    return ExitCode.DONE


def _copy(source: Path, folder: Path, force: bool) -> str:
    target, content = folder / source.name, source.read_bytes()
    exists = target.exists() or target.is_symlink()
    if exists and target.is_file() and target.read_bytes() == content:
        return "unchanged"
    if exists and not force:
        return "kept"
    try:
        FILES.replace(target, content)
    except StorageError as error:  # its remedy is that of a storage
        why = f"{target} could not be written: {error.__cause__ or error}"
        raise StorageError(f"{why}. Let this user write there, or choose another DIR") from error
    return "overwritten" if exists else "copied"
