"""Files on a local disk, with links to other folders and other disks."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import StorageError
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id

pytestmark = pytest.mark.safety


def test_an_entry_that_cannot_be_looked_at_is_not_passed_over(tmp_path: Path) -> None:
    """It may be the manifest of the only snapshot that shows a group in use."""
    for number in (0, 1):
        write_hour(tmp_path, number)
    manifest = tmp_path / CLUSTER / "manifests" / f"{snapshot_id(0)}.json"
    manifest.rename(tmp_path / "manifest")
    manifest.symlink_to(manifest.name)
    with pytest.raises(StorageError, match=r"manifests could not be listed: .*symbolic links"):
        judge(tmp_path)
