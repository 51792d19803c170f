"""A plan as it is stored and sealed."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.ledger.deletion_plan import (
    DeletionPlan,
    find_in_plan,
    load_plan,
    require_applicable,
    save_plan,
)
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from airflow_kafka_groups.storage.formats import digest_of
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.unit.change.plan.plans import ID, group, plan

texts = st.text(max_size=12)
numbers = st.none() | st.integers(0, 2**53)
times = st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1), timezones=st.just(UTC))
planned_groups = st.builds(
    PlannedGroup,
    group_id=texts,
    group_type=texts,
    protocol_type=texts,
    state=texts,
    partitions=st.integers(0, 1000),
    lag=numbers,
    idle_since=st.none() | times,
    idle_seconds=st.none() | st.floats(0, 1e12),
    reason=texts,
    fingerprint=st.text("0123456789abcdef", min_size=64, max_size=64),
    lag_unknown=st.none() | st.integers(0, 9),
    lag_trend=st.none() | st.floats(-9, 9),
    offsets_expire_by=st.none() | times,
)
kept_groups = st.builds(KeptGroup, group_id=texts, verdict=texts, reason=texts)


@given(
    st.lists(planned_groups, max_size=5, unique_by=lambda item: item.group_id),
    st.lists(kept_groups, max_size=5),
    st.lists(texts, max_size=3),
)
def test_a_plan_reads_back_as_it_was_written(
    groups: list[PlannedGroup], kept: list[KeptGroup], warnings: list[str]
) -> None:
    made = plan(groups=tuple(groups), kept=tuple(kept), warnings=tuple(warnings))
    read = DeletionPlan.from_json(json.loads(json.dumps(made.to_json())), made.body)
    assert read == made
    assert (read.digest, list(read.groups), read.group_ids) == (made.digest, groups, [g.group_id for g in groups])
    assert list(read.kept) == sorted(kept, key=lambda item: item.group_id)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    nested = [leaf for key, value in items for leaf in leaves(value, (*path, key))]
    return nested or [path]


@pytest.mark.parametrize("path", leaves(plan().to_json()), ids=str)
def test_any_edit_of_the_header_is_refused(path: tuple[Any, ...], tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    save_plan(layout, plan())
    file = tmp_path / "prod" / "plans" / f"{ID}.json"
    data = json.loads(file.read_text())
    target = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = "0" * 64 if target[path[-1]] != "0" * 64 else "1" * 64
    file.write_text(json.dumps(data))
    with pytest.raises(PlanError):
        load_plan(layout, ID)
    with pytest.raises(PlanError):
        find_in_plan(layout, ID, "dead")
    file.write_text(json.dumps(plan().to_json()))
    assert load_plan(layout, ID) == plan()


Damage = Callable[[Path, Path], object]
DAMAGES: list[tuple[str, Damage, str]] = [
    ("no body", lambda header, body: body.unlink(), "the groups of the plan are missing"),
    ("empty body", lambda header, body: body.write_bytes(b""), "SHA-256 differs"),
    ("torn body", lambda header, body: body.write_bytes(body.read_bytes()[:-20]), "SHA-256 differs"),
    ("a byte more", lambda header, body: body.write_bytes(body.read_bytes() + b" "), "SHA-256 differs"),
    (
        "another plan's body",
        lambda header, body: body.write_bytes(plan(groups=(group("another"),)).body),
        "SHA-256 differs",
    ),
    ("no header", lambda header, body: header.unlink(), "the plan is missing"),
    ("torn header", lambda header, body: header.write_bytes(header.read_bytes()[:-20]), "damaged or incomplete"),
    ("newer header", lambda header, body: reseal(header, format=2), "format 2; this version reads 1"),
    ("no format", lambda header, body: reseal(header, format=None), "format None"),
    ("format by a flag", lambda header, body: reseal(header, format=True), "format True"),
    ("another name", lambda header, body: reseal_body(header, name="../x.parquet"), "it names the file '../x.parquet'"),
    ("no name", lambda header, body: reseal(header, body={}), "damaged: KeyError"),
    ("no body in the header", lambda header, body: reseal(header, body=None), "damaged: TypeError"),
    ("other counts", lambda header, body: reseal(header, groups=2), "differs when read back"),
    ("other counts of kept", lambda header, body: reseal(header, kept=0), "differs when read back"),
    ("other size", lambda header, body: reseal_body(header, bytes=1), "differs when read back"),
    ("more in the header", lambda header, body: reseal(header, extra=1), "differs when read back"),
]


def reseal(header: Path, **changes: Any) -> None:
    """Edit a header and give it the digest that fits."""
    data = {**json.loads(header.read_text()), **changes}
    header.write_text(json.dumps({**data, "digest": digest_of(data)}))


def reseal_body(header: Path, **changes: Any) -> None:
    reseal(header, body={**json.loads(header.read_text())["body"], **changes})


@pytest.mark.safety
@pytest.mark.parametrize(("damage", "message"), [item[1:] for item in DAMAGES], ids=[item[0] for item in DAMAGES])
def test_no_damaged_plan_is_believed(damage: Damage, message: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    header = Path(str(save_plan(layout, plan())))
    damage(header, header.with_suffix(".parquet"))
    with pytest.raises(PlanError, match=message):
        load_plan(layout, ID)


@pytest.mark.safety
def test_a_header_that_fits_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    header = Path(str(save_plan(layout, plan())))
    for body, message in (
        (b"no Parquet", "damaged: ArrowInvalid"),
        (plan(groups=(group("dead"), group("dead2"))).body, "differs when read back"),
        (as_parquet([]), "column place is missing"),
        (as_parquet(pq.read_table(pa.BufferReader(plan().body)).to_pylist()), "column place is int64, not int32"),
        (misplaced([None, 1]), "the places of the planned groups"),
        (misplaced([0, 1]), "has a group without its"),
    ):
        header.with_suffix(".parquet").write_bytes(body)
        reseal_body(header, sha256=hashlib.sha256(body).hexdigest())
        with pytest.raises(PlanError, match=message):
            load_plan(layout, ID)


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


def misplaced(places: list[int | None]) -> bytes:
    table = pq.read_table(pa.BufferReader(plan().body))
    where = table.schema.get_field_index("place")
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(where, table.schema.field(where), pa.array(places, pa.int32())), sink)
    return bytes(sink.getvalue())


def test_one_group_is_found(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    groups = tuple(group(f"g{number:02}", lag=number) for number in reversed(range(20)))
    kept = (KeptGroup(group_id="k", verdict="live", reason="in use"), KeptGroup(group_id="", verdict="live", reason=""))
    save_plan(layout, plan(groups=groups, kept=kept))
    assert find_in_plan(layout, ID, "g07") == groups[12]
    assert find_in_plan(layout, ID, "k") == kept[0]
    assert find_in_plan(layout, ID, "") == kept[1]
    assert find_in_plan(layout, ID, "elsewhere") is None


def test_a_plan_names_a_group_once_and_knows_its_offsets() -> None:
    with pytest.raises(PlanError, match="twice"):
        plan(groups=(group("g"), group("g")))
    with pytest.raises(PlanError, match="no fingerprint"):
        plan(groups=(group("g", fingerprint=""),))
    refused = ("idle_seconds", float("nan")), ("partitions", 2**31), ("lag", 2**63), ("partitions", "many")
    for changes in map(dict, ([each] for each in refused)):
        with pytest.raises(PlanError, match="cannot be written"):
            plan(groups=(group("g", **changes),))


def test_plans_are_never_overwritten_and_stay_in_their_cluster(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    save_plan(layout, plan())
    with pytest.raises(PlanError, match="never changed"):
        save_plan(layout, plan())
    with pytest.raises(PlanError, match="not for 'other'"):
        save_plan(Layout(tmp_path, "other"), plan())
    (tmp_path / "other" / "plans").mkdir(parents=True)
    for name in (f"{ID}.json", f"{ID}.parquet"):
        (tmp_path / "other" / "plans" / name).write_bytes((tmp_path / "prod" / "plans" / name).read_bytes())
    with pytest.raises(PlanError, match="of cluster 'prod'"):
        load_plan(Layout(tmp_path, "other"), ID)
    with pytest.raises(PlanError, match="missing"):
        load_plan(Layout(tmp_path, "none"), ID)


@pytest.mark.parametrize("value", ["", "x" * 64, "A" * 64, None, 5])
def test_a_digest_looks_like_one(value: object) -> None:
    assert check_digest("digest", "a" * 64) == "a" * 64
    with pytest.raises(ConfigurationError, match="digest"):
        check_digest("digest", value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_cluster_id": "other"}, "check the connection"),
        ({"kafka_cluster_id": None}, "check the connection"),
        ({"kafka_cluster_id": ""}, "check the connection"),
        ({"now": NOW + timedelta(days=1)}, "expired"),
    ],
)
def test_a_plan_applies_here_and_now_or_not_at_all(changes: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"kafka_cluster_id": CLUSTER_ID, "now": NOW}
    require_applicable(plan(), **fitting)
    with pytest.raises(PlanError, match=message):
        require_applicable(plan(), **{**fitting, **changes})


@pytest.mark.parametrize("approved", ["b" * 64, ""])
def test_another_plan_than_the_approved_one_is_refused(approved: str) -> None:
    plan().require_digest(plan().digest)
    with pytest.raises(PlanError, match="not the one that was asked for or approved"):
        plan().require_digest(approved)


def test_two_clusters_without_a_name_are_not_the_same_cluster() -> None:
    with pytest.raises(PlanError, match="check the connection"):
        require_applicable(plan(kafka_cluster_id=""), kafka_cluster_id="", now=NOW)
