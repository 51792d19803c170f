"""What libraries of Azure and Google make of a 404, as it was seen with their emulators: no file, whoever said so."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath
from tests.fakes.refusing_path import path_in

pytestmark = pytest.mark.safety


class AzureError(Exception):
    """As azure-core's; a proxy's page has no code of the store."""

    status_code = 404

    def __init__(self, error_code: str | None) -> None:
        super().__init__("The specified resource does not exist")
        self.error_code = error_code


class Adlfs:
    """Names the file that is missing, whatever is; of a listing the answer is left in the context only."""

    protocol = ("abfs", "az", "abfss")

    def __init__(self, code: str | None) -> None:
        self.code = code

    def invalidate_cache(self, key: str) -> None:
        """Forget nothing."""

    def cat_file(self, key: str) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", key) from AzureError(self.code)

    rm_file = cat_file

    def ls(self, key: str, detail: bool) -> Any:
        if self.code == "BlobNotFound":  # the listing itself is fine, and has nothing
            raise FileNotFoundError(2, "No such file or directory", key)
        try:
            raise AzureError(self.code)
        except AzureError:
            raise FileNotFoundError(2, "No such file or directory", key)  # noqa: B904  # as adlfs does


class Gcsfs:
    """Drops what a 404 says. ``listed`` is what Google's store lists, ``None`` where there is no bucket, or store."""

    protocol = ("gs", "gcs")

    def __init__(self, listed: list[str] | None) -> None:
        self.listed = listed

    def invalidate_cache(self, key: str) -> None:
        """Forget nothing."""

    def cat_file(self, key: str) -> bytes:
        raise FileNotFoundError(f"https://storage.googleapis.com/download/storage/v1/b/{key}?alt=media")

    rm_file = cat_file

    def ls(self, key: str, detail: bool) -> Any:
        raise FileNotFoundError(f"b/{key}")

    def call(self, method: str, path: str, bucket: str, *, prefix: str, **_: Any) -> dict[str, Any]:
        assert (method, path.format(bucket)) == ("GET", "b/bucket/o")
        if self.listed is None:
            raise FileNotFoundError("b/bucket/o")
        return {"items": [{"name": name} for name in sorted(self.listed) if name.startswith(prefix)][:1]}


EACH = pytest.mark.parametrize("ask", [FILES.read, FILES.names, FILES.remove])


@EACH
@pytest.mark.parametrize("fs", [Adlfs("BlobNotFound"), Gcsfs([]), Gcsfs(["groups-of-others/1.json", "groups2"])])
def test_what_the_store_itself_calls_absent_is_absent(ask: Callable[[StoragePath], Any], fs: Any) -> None:
    assert not ask(path_in(fs))


def test_a_folder_is_no_file() -> None:
    """A folder called STOP stops nothing."""
    assert FILES.read(path_in(Gcsfs(["groups/1.json"]))) is None


@EACH
@pytest.mark.parametrize("fs", [Adlfs("ContainerNotFound"), Gcsfs(None)])
def test_a_container_or_bucket_that_does_not_exist_is_no_empty_one(ask: Callable[[StoragePath], Any], fs: Any) -> None:
    with pytest.raises(StorageError, match="check the name of the bucket"):
        ask(path_in(fs))


@EACH
def test_the_404_of_a_proxy_before_azure_is_no_absence(ask: Callable[[StoragePath], Any]) -> None:
    with pytest.raises(StorageError, match="does not say what is missing"):
        ask(path_in(Adlfs(None)))


@pytest.mark.parametrize(
    ("ask", "there"), [(FILES.read, "groups"), (FILES.remove, "groups"), (FILES.names, "groups/1.json")]
)
def test_a_moment_s_404_of_a_proxy_before_google_is_no_absence(ask: Callable[[StoragePath], Any], there: str) -> None:
    """A stop switch, an approval that was withdrawn or the record of a restore would be "not there"."""
    with pytest.raises(StorageError, match="is listed"):
        ask(path_in(Gcsfs([there])))


def test_a_blob_with_the_name_of_a_folder_of_azure_does_not_make_it_empty() -> None:
    """Adlfs lists that one alone: the records of restores would be hidden, and what was restored deleted again."""
    fs = SimpleNamespace(
        protocol=("abfs", "az", "abfss"),
        invalidate_cache=lambda key: None,
        ls=lambda key, detail: [{"name": "lab/prod/changes", "type": "file"}],
    )
    with pytest.raises(StorageError, match="a file is called so: remove that file"):
        FILES.names(path_in(fs, "lab/prod/changes"))
