"""The DAGs folder of the demo: the shipped DAGs, of which the clean-up is given a notifier, and one more.

A team does the same: ``airflow-kafka-groups copy-dags``, and the notifier of docs/howto/policy.md.
"""

import shutil
from pathlib import Path

from airflow_kafka_groups.example_dags import dag_files

CLEANUP = "cleanup_stale_groups.py"
OWN = Path(__file__).parent / "dags"
_OPERATOR = "NotifyOwnersOperator("
_NOTIFIER = """SmtpNotifier(
            from_email="kafka-platform@example.com",
            to="{{ notice.contact }}",
            subject="{{ notice.subject }}",
            html_content="{{ notice.html }}",
        )"""
_IMPORT = "from airflow.providers.smtp.notifications.smtp import SmtpNotifier\n"
_AFTER = "from airflow.providers.standard.operators.empty import EmptyOperator\n"


def write_dags(folder: Path) -> None:
    """Write all DAG files.

    :param folder: an empty folder.

    Raises ValueError when the clean-up is not the one that this module knows how to change.
    """
    folder.mkdir(parents=True)
    for path in (*dag_files(), OWN / "keep_sleepers_alive.py"):
        shutil.copy(path, folder)
    cleanup = folder / CLEANUP
    cleanup.write_text(with_notifier(cleanup.read_text()))


def with_notifier(text: str) -> str:
    """Return the clean-up's DAG file with a notifier that sends mail. Raises ValueError as ``write_dags`` does."""
    if text.count(_OPERATOR) != 1 or text.count(_AFTER) != 1:
        raise ValueError(f"{CLEANUP} must have one {_OPERATOR}…) and {_AFTER.strip()}")
    text = text.replace(_AFTER, _IMPORT + _AFTER)
    return text.replace(_OPERATOR, f"{_OPERATOR}\n        notifiers=[{_NOTIFIER}],\n        ")
