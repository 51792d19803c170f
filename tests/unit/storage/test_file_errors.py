"""The errors for a file that is damaged, or lies in another cluster's folder."""

import json

import pytest

from airflow_kafka_groups.exceptions import JournalError, PlanError, StorageError
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.json_files import elsewhere


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


def test_content_as_it_is_written_is_read() -> None:
    def read() -> object:
        with unless_damaged(PlanError, "plan 'p'"):
            return json.loads("[1]")

    assert read() == [1]


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
