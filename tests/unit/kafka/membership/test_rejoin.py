"""Metadata that changes reaches the leader, whenever it changes."""

from __future__ import annotations

import asyncio

from airflow_kafka_groups.kafka.membership import ClusterClient, GroupProtocol, MemberSession, Phase
from tests.unit.kafka.membership.group import OPTIONS, Recorder, ScriptedGroup, until


async def test_metadata_that_changes_while_it_is_asked_for_is_announced_by_another_round(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    class Changing(Recorder):
        async def metadata(self) -> list[GroupProtocol]:  # type: ignore[override]  # as a coroutine
            told = word
            if group.generation == 0 and group.ids == 1:
                change()  # by another task of the process, before the request is made
            return [GroupProtocol("p1", told)]

    word = b"before"

    def change() -> None:
        nonlocal word
        word = b"after"
        session.rejoin("the metadata has changed")

    session = MemberSession(cluster, Changing(), OPTIONS)
    async with session, asyncio.timeout(5):
        await until(lambda: session.membership.phase is Phase.STABLE)
        await until(lambda: ("m1", b"after") in group.joined_as)
