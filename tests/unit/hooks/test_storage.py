import os
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.io import store

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError, PolicyError, StorageError
from airflow_kafka_groups.hooks.storage import open_layout, open_path, open_policy, policy_reader
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors


@pytest.mark.parametrize(
    ("text", "path"),
    [
        *(("/data/x", "/data/x"), ("file:///data/x", "/data/x"), (" /data/x ", "/data/x")),
        *(("file:///a%20b", "/a b"), ("/a%20b", "/a%20b"), ("/a?b", "/a?b"), ("file:///a%3Fb", "/a?b")),
    ],
)
def test_local_paths_are_plain_paths_of_which_a_url_is_decoded(text: str, path: str) -> None:
    assert open_path("storage_path", text) == Path(path)


@pytest.mark.parametrize("mark", ["?", "#"])
def test_what_would_end_the_path_of_a_url_is_refused(mark: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must have %3F for '[?]' and %23 for '#'"):
        open_path("p", f"file:///a{mark}b/c")


@pytest.mark.parametrize("value", ["", "  ", "None", "relative/x", "./x", "~/x", "file://host/x", None, 5])
def test_what_is_no_absolute_place_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="storage_path"):
        open_path("storage_path", value)


def test_a_kind_of_storage_without_its_provider_says_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"storage_path.*Install the provider"):
        open_path("storage_path", "gs://bucket/x")


@pytest.mark.parametrize("scheme", ["sftp", "ssh", "webdav", "smb", "hdfs", "webhdfs", "https", "memory", "oss"])
def test_another_storage_is_refused_with_what_is_supported(scheme: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_path("storage_path", f"{scheme}://my_conn@host/kafka")
    assert f"storage_path (got '{scheme}://my_conn@host/kafka')" in str(caught.value)
    assert "local disk or NFS (/data/groups), S3 (s3://), Google Cloud Storage (gs://) or Azure" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("s3://AKIA:hidden@bucket/x", "s3://AKIA:hid/den@bucket/x", "s3://AKIA:hid+den%2F@bucket", "gs://:hidden@b"),
        *("s3://AKIA:/hidden@bucket/x", "s3://AKIA:7/hidden@bucket/x", "S3://AKIA:7/hidden@bucket/x"),
        *("sftp://me:hid#den@host/x", "sftp://me:hid?den@host/x", "simplecache::s3://AKIA:7/hidden@bucket/x"),
        *("sftp://me:hid[den@host/x", "s3://AKIA:hid]den@bucket/x", "sftp://me:hid\u2100den@host/x"),
        *("sftp:/me:hidden@host/x", "me:hidden@host:/x"),
        *("abfss://c@acct.dfs.core.windows.net/f?sv=2024&sig=hidden", "s3://bucket/f?X-Amz-Signature=hidden"),
        *("https://host/policy.yaml?access_token=hidden", "gs://bucket/f#secret=hidden"),
    ],
)
def test_a_password_in_a_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"storage_path \(got '[\w:]+://…'\): .*my_connection@") as caught:
        open_path("storage_path", url)
    assert "hid" not in str(caught.value)


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nhidden\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.safety
@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", KEY),
        PermissionError("Permission denied for user me on host files"),
        ConnectionRefusedError(111, "Connect call failed"),
        TypeError("GCSFileSystem.__init__() missing 1 required positional argument: 'project'"),
        LookupError("The conn_id `my_conn` isn't defined"),
        ValueError(f"not a key: {KEY}"),  # of the kind that Airflow raises where it does not know the storage
    ],
)
def test_a_storage_that_cannot_be_opened_is_named_and_shows_no_key(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("airflow.sdk.io.get_fs", Mock(side_effect=error))
    monkeypatch.setattr("airflow.sdk.io.has_fs", lambda scheme: scheme == "gs")
    monkeypatch.setattr(store, "_STORE_CACHE", {})
    with pytest.raises(StorageError, match=r"gs://my_conn@files/kafka could not be opened: ") as caught:
        open_path("storage_path", "gs://my_conn@files/kafka")
    assert "hidden" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url", [*("gs://my_conn@bucket/x", "gs://my_conn@host:9000/a"), *("gs://b/x:y@z", "gs://b/x?design=1")]
)
def test_a_connections_id_and_a_port_are_no_passwords(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Install the provider"):
        open_path("storage_path", url)


@pytest.mark.parametrize(
    ("cluster", "conn_id", "folder"), [("prod", "c", "prod"), (None, "my conn", "my_conn"), (None, "_x", "x")]
)
def test_the_clusters_folder_is_its_name_or_the_connections_id(cluster: str | None, conn_id: str, folder: str) -> None:
    assert str(open_layout("/data", cluster, conn_id).root) == f"/data/{folder}"


@pytest.mark.parametrize("cluster", ["", "../up", "a/b", "None ", 5])
def test_a_cluster_that_is_no_folder_name_is_refused(cluster: Any) -> None:
    with pytest.raises(ConfigurationError, match="cluster"):
        open_layout("/data", cluster, "c")


def test_a_policy_file_is_read_when_it_is_asked_for_and_opened_before(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nrules: [{name: all, action: keep}]\n")
    policy = PlanPolicy().by_file(open_policy("policy_file", str(path), NO_FLOORS))
    read = policy_reader(policy)
    path.write_text("version: 1\nrules: [{name: later, action: keep}]\n")
    found = read()
    assert found is not None
    assert [rule.name for rule in found.rules] == ["later", "default"]

    path.unlink()
    with pytest.raises(PolicyError):
        policy_reader(policy)
    assert policy_reader(PlanPolicy(min_idle_seconds=60))() is None, "it has no file"


def test_another_policy_than_the_sites_is_not_read() -> None:
    with pytest.raises(PlanError, match=r"the site plans by the policy '/site.yaml' only .*not by '/dev/zero'"):
        open_policy("policy_file", "/dev/zero", SiteFloors(policy_file="/site.yaml"))


def test_what_opens_a_storage_lets_arrow_allocate_by_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "")  # so that it is put back
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL")
    monkeypatch.setitem(sys.modules, "pyarrow", object())
    open_layout("/data", "c", "kafka")
    assert "ARROW_DEFAULT_MEMORY_POOL" not in os.environ, "Arrow is loaded, and has chosen"
    monkeypatch.delitem(sys.modules, "pyarrow")
    open_layout("/data", "c", "kafka")
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"


@pytest.mark.safety
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_amazons_connection_must_exist(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """Amazon's provider goes on without one, by the machine's credentials: a mistyped id led to another store."""
    opened = SimpleNamespace(protocol=scheme)
    monkeypatch.setattr("airflow.sdk.io.get_fs", lambda *_, **__: opened)
    monkeypatch.setattr(store, "_STORE_CACHE", {})
    remedy = rf"storage_path \(got 'mistyped_{scheme}'\): there is no such connection.*'Amazon Web Services'"
    with pytest.raises(ConfigurationError, match=remedy):
        open_path("storage_path", f"{scheme}://mistyped_{scheme}@bucket/kafka")
    monkeypatch.setenv(f"AIRFLOW_CONN_MISTYPED_{scheme.upper()}", "aws://")
    assert open_path("storage_path", f"{scheme}://mistyped_{scheme}@bucket/kafka").name == "kafka"
    for usual in ("bucket", "aws_default@bucket"):
        assert open_path("storage_path", f"{scheme}://{usual}/kafka").name == "kafka"
