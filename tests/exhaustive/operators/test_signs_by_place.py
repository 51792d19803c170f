"""Each sign of life in a snapshot, in each place where it may be seen, keeps a group from plan and deletion."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import pytest

from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import Sign
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.groups import CLUSTER_ID, FakeGroup, timeout
from tests.unit.operators import scene
from tests.unit.operators.scene import Site
from tests.unit.operators.test_signs_of_life import SHOWN, DecidedBy, looks

pytestmark = pytest.mark.safety


class Place(StrEnum):
    """Where a sign was seen. What is taken during a deletion has a test beside the deletion."""

    OWN_OLDER = "own folder, before the judged snapshot"
    OTHER_OLDER = "another connection's folder, before the judged snapshot"
    OTHER_INCOMPLETE = "the same, in snapshots that lack a broker"
    OWN_NEWER = "own folder, after the judged snapshot"
    OTHER_NEWER = "another connection's folder, after the judged snapshot"


ABSENT = {Sign.CAME_BACK, Sign.FIRST_SEEN}
"""What an incomplete snapshot cannot show: what it lacks may be there."""
NO_SIGN = {(sign, Place.OTHER_INCOMPLETE) for sign in ABSENT}


@pytest.mark.parametrize("decision", [DecidedBy.PLAN, DecidedBy.DELETION])
@pytest.mark.parametrize("place", Place, ids=lambda place: place.name)
@pytest.mark.parametrize("sign", SHOWN, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_in_a_snapshot_keeps_the_group(site: Site, sign: Sign, place: Place, decision: DecidedBy) -> None:
    """A judgement that knows nothing of it calls the group stale, as one of the clean-up's own folder does."""
    site.admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    is_own = place in (Place.OWN_OLDER, Place.OWN_NEWER)
    is_newer = place in (Place.OWN_NEWER, Place.OTHER_NEWER)
    folder = Layout(site.storage, scene.CLUSTER if is_own else "other")

    def show() -> None:
        ago = timedelta(0) if is_newer else timedelta(minutes=30)
        site.admin.missing_brokers = {2: timeout()} if place is Place.OTHER_INCOMPLETE else {}
        SHOWN[sign](site.admin, looks(site.admin, folder, ago))
        site.admin.groups["a"], site.admin.missing_brokers = FakeGroup(), {}

    def hide(back: bool) -> None:
        """Let the snapshots be about to be finished until the plan is made."""
        for each in Path(str(folder.manifests)).iterdir() if not back else aside.iterdir():
            each.rename((Path(str(folder.manifests)) if back else aside) / each.name)

    aside = site.storage / "aside"
    aside.mkdir()
    if not is_newer:
        show()
        if decision is DecidedBy.DELETION:
            hide(back=False)
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale={"a", "b"})
    if is_newer and decision is DecidedBy.PLAN:
        show()
    found = site.plan(snapshot_id=snapshot_id, max_share=1)
    planned_ids = load_plan(site.layout, found["plan_id"]).group_ids
    kept = (sign, place) not in NO_SIGN
    if decision is DecidedBy.PLAN:
        assert planned_ids == (["b"] if kept else ["a", "b"])
        signs = Ledger(site.layout, CLUSTER_ID).known(["a", "b"], utc_now() - timedelta(days=1)).signs()
        if (sign, place) == (Sign.FIRST_SEEN, Place.OWN_NEWER):
            sign = Sign.CAME_BACK  # the judged snapshot has it
        assert {group_id: found.sign for group_id, found in signs.items()} == ({"a": sign} if kept else {})
        return
    assert planned_ids == ["a", "b"]
    site.back_up(found)
    if is_newer:
        show()
    else:
        hide(back=True)
    site.apply(found, dry_run=False)
    assert set(site.admin.groups) == {*(["a"] if kept else []), "live"}
