"""No topic is pruned in quiet hours of the policy, neither begun nor gone on with, nor on a cluster that it omits."""

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PolicyError, QuietTimeError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.prune_plan import PrunePlan
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.unit.change.prune_topics.scene import PRUNE, cluster, layout_in, plan, prune, snapshots

pytestmark = pytest.mark.safety


class Planned:
    """A plan by a policy file, which is edited afterwards."""

    def __init__(self, folder: Path, admin: FakeAdmin) -> None:
        self.layout, self.admin, self.path = layout_in(folder), admin, folder / "policy.yaml"
        self.path.write_text(PRUNE)

    async def make(self) -> PrunePlan:
        at = await snapshots(self.admin, self.layout)
        return plan(self.layout, at, file=load_policy(self.path))

    def edit(self, text: str) -> None:
        self.path.write_text(PRUNE + text)

    def read(self) -> PolicyFile:
        return load_policy(self.path)


async def test_nothing_begins_in_quiet_hours(tmp_path: Path) -> None:
    planned = Planned(tmp_path, cluster())
    of = await planned.make()
    end = (of.created_at + timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    planned.edit(f"quiet_hours: '{of.created_at:%H}:00-{end:%H}:00'\n")
    with pytest.raises(QuietTimeError, match="no deletions during the quiet hours") as error:
        await prune(planned.admin, planned.layout, of, policy=planned.read)
    assert error.value.until == end
    assert not list(tmp_path.glob("_journal/*/0*"))  # noqa: ASYNC240  # it is fast
    assert len(planned.admin.groups["app"].offsets) == 4
    dry = await prune(planned.admin, planned.layout, of, policy=planned.read, dry_run=True)
    assert len(dry.report.ids(Outcome.WOULD_DELETE)) == 1
    result = await prune(planned.admin, planned.layout, of, policy=planned.read, now=Ticking(end))
    assert len(result.report.ids(Outcome.DELETED)) == 1


async def test_a_run_stops_where_quiet_hours_begin(tmp_path: Path) -> None:
    admin = cluster()
    for number in range(3):
        admin.add(f"b{number}", ("live", 0, 1), ("old", 0, 7), members=1, subscribed=frozenset({"live"}))
    planned = Planned(tmp_path, admin)
    of = await planned.make()
    assert len(of.groups) == 4
    begin = (of.created_at + timedelta(minutes=30)).replace(second=0, microsecond=0)
    planned.edit(f"quiet_hours: '{begin:%H:%M}-{begin + timedelta(hours=2):%H:%M}'\n")
    now = Ticking(begin - timedelta(minutes=1))

    def pass_on(call: str) -> None:
        if call == "delete offsets":
            now.value += timedelta(minutes=2)

    admin.before = pass_on
    report = (await prune(admin, planned.layout, of, policy=planned.read, now=now, chunk_size=1)).report
    assert (report.counts["deleted"], report.kept_reasons) == (1, {"stopped": 3})


async def test_a_policy_that_no_longer_names_the_cluster_prunes_nothing_on_it(tmp_path: Path) -> None:
    planned = Planned(tmp_path, cluster())
    of = await planned.make()
    planned.edit("clusters: {other: {connection: other}}\n")
    for dry_run in (False, True):
        with pytest.raises(PolicyError, match="not for 'prod'"):
            await prune(planned.admin, planned.layout, of, policy=planned.read, dry_run=dry_run)
    with pytest.raises(PolicyError, match="not for 'prod'"):
        plan(planned.layout, of.created_at, file=planned.read())
    assert len(planned.admin.groups["app"].offsets) == 4
