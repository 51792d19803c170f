"""Checks of the storage folder: what backups and the journal rely on, tried with two small files that are removed."""

from __future__ import annotations

import secrets
from contextlib import suppress

from airflow_kafka_groups.doctor.finding import Report
from airflow_kafka_groups.doctor.installed import executors_elsewhere
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.access import EXCLUSIVE_REMEDY
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath, utc_now
from airflow_kafka_groups.storage.manifest import CLOCKS_MAY_DIFFER

PROBE_FOLDER = "_doctor"
_WRITABLE = "Let the Airflow workers create folders and files there, or set another storage_path."


def examine_storage(root: StoragePath, report: Report) -> None:
    """Try what deletions rely on: exclusive creation, reading back, listing after writing, removing.

    :param root: the storage folder (``storage_path``). It is created if it does not exist.
    """
    folder = root / PROBE_FOLDER
    probe = folder / secrets.token_hex(8)
    try:
        with report.checking("storage", _WRITABLE, StorageError):
            FILES.create(probe, b"one")
            report.ok("storage", f"Files can be created in {root} and read back.")
            if FILES.is_exclusive(probe):
                report.ok("exclusive creation", "A file that exists is never replaced.")
            else:
                report.fail("exclusive creation", "The storage replaced a file that existed.", EXCLUSIVE_REMEDY)
            _examine_listing(folder, probe, report)
            _examine_storage_clock(probe, report)
    finally:
        with suppress(Exception):  # what is left over has no meaning to anybody
            FILES.remove(probe)
            FILES.remove_folder(folder)
    _examine_place(root, report)


def _examine_listing(folder: StoragePath, probe: StoragePath, report: Report) -> None:
    if probe.name in FILES.names(folder):
        report.ok("listing", "A new file is listed at once.")
        return
    text = "A new file is not listed at once: the storage lists late."
    report.warn("listing", text, "Nothing: journal and backups do not rely on listings; reports may lag.")


def _examine_storage_clock(probe: StoragePath, report: Report) -> None:
    """Compare the time at which the storage says that a file was written a moment ago."""
    seconds = (FILES.describe(probe).written_at - utc_now()).total_seconds()
    if abs(seconds) <= CLOCKS_MAY_DIFFER:
        report.ok("storage clock", "The storage's clock and this machine's agree.")
        return
    text = f"The storage's clock is {abs(seconds):,.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's."
    report.fail("storage clock", text, "Synchronize the clocks (NTP): what was read until when is judged by both.")


def _examine_place(root: StoragePath, report: Report) -> None:
    """Warn of a folder of one machine where tasks run on others: a backup would be gone with the pod of its task."""
    if FILES.local(root) is None or not (elsewhere := executors_elsewhere()):
        return
    text = f"{root} is a folder of this machine, and {', '.join(elsewhere)} runs tasks on others."
    report.warn("place", text, "Let all workers, Spark and the API server share it, or use an object store.")
