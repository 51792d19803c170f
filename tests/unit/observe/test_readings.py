"""One result for each group that was asked about: no answer never looks like "no offsets"."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MissingAnswerError
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.observe.readings import read_offsets
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, offsets_of, timeout

A, B = offsets_of("a", ("t", 0, 5)), offsets_of("b", ("t", 0, 6))


class Scripted(FakeAdmin):
    """A cluster that answers with these results, whatever is asked."""

    def __init__(self, *results: GroupResult[GroupOffsets]) -> None:
        super().__init__()
        self.results = results

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False, progress: Any = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        for result in self.results:
            yield result


async def read(admin: FakeAdmin, *group_ids: str, require_stable: bool = True) -> dict[str, GroupResult[GroupOffsets]]:
    results = [result async for result in read_offsets(admin, list(group_ids), require_stable=require_stable)]
    assert sorted(result.group_id for result in results) == sorted(group_ids), "exactly one for each"
    return {result.group_id: result for result in results}


async def test_values_and_errors_are_handed_on() -> None:
    error = timeout()
    found = await read(Scripted(GroupResult("b", error=error), GroupResult("a", A)), "a", "b")
    assert (found["a"].value, found["b"].error) == (A, error)


@pytest.mark.parametrize(
    "results",
    [(), (GroupResult[GroupOffsets]("a"),), (GroupResult("a", B),), (GroupResult("b", A),)],
    ids=["left out", "a success without a value", "another group's offsets", "an answer about another group"],
)
async def test_what_is_no_answer_is_an_error(results: tuple[GroupResult[GroupOffsets], ...]) -> None:
    assert isinstance((await read(Scripted(*results), "a"))["a"].error, MissingAnswerError)


async def test_of_two_answers_the_first_counts() -> None:
    later = offsets_of("a", ("t", 0, 9))
    assert (await read(Scripted(GroupResult("a", A), GroupResult("a", later)), "a"))["a"].value is A


async def test_stable_offsets_are_asked_for_where_they_are_wanted() -> None:
    admin = FakeAdmin({"a": FakeGroup()})
    await read(admin, "a", require_stable=True)
    await read(admin, "a", require_stable=False)
    assert admin.call_names == ["stable offsets", "offsets"]
