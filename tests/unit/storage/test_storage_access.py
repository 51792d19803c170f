"""Folders are made where a storage has any, and an error of a storage comes with what to do about it."""

import errno
import traceback
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError, PlanError, PolicyError, StorageError
from airflow_kafka_groups.judge.policy.policy_file import load_policy
from airflow_kafka_groups.observe.snapshot.cluster_folders import other_folders
from airflow_kafka_groups.storage.access import storage_errors, unless_damaged, without_secrets
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import elsewhere
from airflow_kafka_groups.storage.layout import Layout


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_of_a_full_disk_the_remedy_is_room(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(StorageError, match=r"Make room there, or choose another storage_path$"),
        storage_errors("written", tmp_path),
    ):
        raise OSError(number, "No space left on device")


SECRET = "s3cr3t-t0ken/x+y=="


@pytest.mark.safety
@pytest.mark.parametrize(
    "text",
    [
        f"401 Client Error: Unauthorized for url: http://nn:9870/webhdfs/v1/a?op=OPEN&delegation={SECRET}",
        f"403, message='Forbidden', url='https://acct.blob.core.windows.net/c/a?sv=2021&sig={SECRET}&se=1'",
        f"GET https://b.s3.amazonaws.com/a?AWSAccessKeyId={SECRET}&Signature={SECRET}&Expires=1 failed",
        f"https://b.s3.amazonaws.com/a?X-Amz-Credential={SECRET}&X-Amz-Security-Token={SECRET}",
        f"refused: {{'Authorization': 'Bearer {SECRET}'}}",
        f"refused: {{'Authorization': 'Basic {SECRET}'}}",
        f"refused: GET /a Authorization: Basic {SECRET}",
        f"cannot connect by Login(user='me', password='a\\'{SECRET}')",
        f'cannot connect by Login(user="me", password="it\'s {SECRET}")',
        f"cannot connect by Login(user='me', password='{SECRET}')",
        f"cannot connect by Login(user='me', password='p&a,s;s) {SECRET}')",
        f"cannot connect by Login(password=\"it's {SECRET}\", token='it\\'s \"{SECRET}\"')",
        f"cannot connect by Login(password={SECRET.encode()!r})",
        f"refused: {{'aws_secret_access_key': '{SECRET}', \"password\":\"{SECRET}\"}}",
        f"cannot connect to https://me:{SECRET.replace('/', '')}@proxy:3128",
        f"cannot connect to https://me:p@a@{SECRET.replace('/', '')}@proxy:3128",
        f"403, message='Forbidden', url='https://host/a?api_key={SECRET}&v=1'",
        f"403, message='Forbidden', url='https://host/a?user=me&pwd={SECRET}'",
        f"403, message='Forbidden', url='https://host/a?key={SECRET}&alt=json'",
        f"401 Client Error: Unauthorized for url: https://host/a?user=me&pass={SECRET}",
        f"401 Client Error: Unauthorized for url: https://host/a.json?auth={SECRET}",
        f"<Error><Resource>https://host/a?v=1&amp;key={SECRET}</Resource></Error>",
        f"<a href='https://host/a.json?v=1&amp;auth={SECRET}'>",
        f"cannot connect to https://host/a;key={SECRET}",
        f"cannot connect to https://host/#pass={SECRET}",
        f"cannot connect by Login(user='me', passwd='{SECRET}')",
        f"No such file: '-----BEGIN OPENSSH PRIVATE KEY-----\\n{SECRET}\\n-----END OPENSSH PRIVATE KEY-----\\n'",
        f"Could not parse -----BEGIN RSA PRIVATE KEY-----\n{SECRET}",
    ],
)
@pytest.mark.parametrize("below", [False, True])
def test_a_token_in_a_library_s_error_is_in_no_message_and_no_traceback(
    tmp_path: Path, text: str, *, below: bool
) -> None:
    """Airflow logs the message with all its causes, and the message is a reason in records and XComs, too."""
    error: Exception = RuntimeError(text)
    if below:
        above = OSError("it failed")
        above.__cause__, error = error, above
    with pytest.raises(StorageError) as caught, storage_errors("read", tmp_path):
        raise error
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in shown
    assert ("it failed" if below else text[:12]) in str(caught.value)


def test_an_error_without_one_is_shown_as_it_is_with_its_cause(tmp_path: Path) -> None:
    error = OSError("https://host:9870/a?op=OPEN&user.name=me: no token, key of day=1, {'NextToken': None}")
    shown = r"a\?op=OPEN&user\.name=me: no token, key of day=1"
    with pytest.raises(StorageError, match=shown) as caught, storage_errors("read", tmp_path):
        raise error
    assert caught.value.__cause__ is error


def test_what_is_absent_is_so_where_the_path_looks_like_a_token(tmp_path: Path) -> None:
    """The cause is left out of the error then, and a file beside the clusters' folders ended each plan."""
    base = tmp_path / "token=orders"
    (base / "prod" / "manifest.json").mkdir(parents=True)
    (base / "README").write_text("whose this is")
    assert FILES.exists(base / "prod" / "manifest.json")
    assert other_folders(Layout(base, "prod")) == []
    with pytest.raises(PolicyError, match="Name the file in it"):
        load_policy(base)


def test_a_long_error_is_looked_through_once() -> None:
    """It took minutes: from each hyphen, all that follows was looked through for the name of a secret."""
    text = "a-" * 100_000
    assert without_secrets(f"{text} token={SECRET}") == f"{text} token=…"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyError("at"), "KeyError: 'at'"),
        (TypeError("no number"), "TypeError: no number"),
        (ValueError("no time"), "ValueError: no time"),
        (AttributeError("items"), "AttributeError: items"),
        (OverflowError("too large"), "OverflowError: too large"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_reading_raises_says_that_the_content_is_damaged(error: Exception, shown: str) -> None:
    with pytest.raises(PlanError) as caught, unless_damaged(PlanError, "plan 'p'"):
        raise error
    assert str(caught.value) == f"plan 'p' is damaged: {shown}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [StorageError("the disk is gone"), JournalError("it has a gap"), OSError("no space")])
def test_an_error_that_says_what_is_wrong_stays(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, unless_damaged(PlanError, "plan 'p'"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("prod", "it was copied or renamed. Move it back to the folder 'prod', and pass cluster='prod'"),
        ("here", "it was copied or changed. Restore the file that belongs there"),
        ("../x", "it was copied or changed. Restore the file that belongs there"),
        (None, "it was copied or changed. Restore the file that belongs there"),
    ],
)
def test_a_file_of_another_folder_is_sent_back(cluster: object, said: str) -> None:
    assert elsewhere(cluster, "here") == said
