"""The trigger that assets watch with: it fires when groups become so, once, and never by doubt."""

import importlib
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher

from airflow_kafka_groups.exceptions import ConfigurationError, NoBrokerAvailableError, RequestTimeoutError
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.observe.patterns import GroupFilter, PatternSet
from airflow_kafka_groups.triggers.events import GroupsEventTrigger, matching_groups
from airflow_kafka_groups.triggers.watch import FamilyGrowth, GroupEvent, GroupWatch
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.triggers.conftest import payloads

T0 = TopicPartition("t", 0)
ARGUMENTS: list[dict[str, Any]] = [
    {"event": "empty"},
    {"event": "stale", "seconds": 3600, "include": ["a*"], "exclude": ["re:ab.*"]},
    {"event": "growing", "max_growth_per_day": 0},
    {"event": "lagging", "max_lag": 0, "report_present": True, "poll_interval": 5.5, "kafka_groups_conn_id": "mine"},
]


def watch(event: str, **more: Any) -> GroupWatch:
    return GroupWatch(event=GroupEvent(event), groups=GroupFilter(), **more)


async def test_groups_are_chosen_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """All triggers of a process share one loop, and the patterns of a site take 200,000 groups more than a second."""
    threads = set()

    def chooses(*_: Any) -> set[str]:
        threads.add(threading.current_thread())
        return {"a", "b"}

    monkeypatch.setattr(PatternSet, "first", lambda *_: chooses() and 0)
    see = FamilyGrowth.see
    monkeypatch.setattr(FamilyGrowth, "see", lambda *args, **how: (chooses(), see(*args, **how))[1])
    admin = FakeAdmin()
    for name in "ab":
        admin.add(name, ("t", 0, 1))
    for event in ("empty", "growing"):
        assert (await watch(event).poll(admin)).complete  # the fake
    assert threading.current_thread() not in threads
    assert threads


async def matching(one: GroupWatch, admin: FakeAdmin) -> set[str]:
    return set((await one.poll(admin)).matching)  # the fake


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda arguments: arguments["event"])
def test_it_is_rebuilt_from_what_it_serialises_to_and_an_asset_takes_it(arguments: dict[str, Any]) -> None:
    path, carried = GroupsEventTrigger(**arguments).serialize()
    module, _, name = path.rpartition(".")
    rebuilt = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(carried)))
    assert rebuilt.serialize() == (path, carried)
    assert len(Asset("x", watchers=[AssetWatcher(name="w", trigger=rebuilt)]).watchers) == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"event": "dead"}, "event"),
        ({"event": "stale"}, "seconds"),
        ({"event": "empty", "seconds": 5}, "seconds"),
        ({"event": "stale", "seconds": -1}, "seconds"),
        ({"event": "stale", "seconds": "soon"}, "seconds"),
        ({"event": "lagging"}, "max_lag"),
        ({"event": "lagging", "max_lag": -1}, "max_lag"),
        ({"event": "stale", "seconds": 5, "max_lag": 5}, "max_lag"),
        ({"event": "growing"}, "max_growth_per_day"),
        ({"event": "growing", "max_growth_per_day": -1}, "max_growth_per_day"),
        ({"event": "growing", "max_growth_per_day": 1, "policy_file": "/p.yaml"}, "policy_file"),
        ({"event": "growing", "policy_file": ""}, "policy_file"),
        ({"event": "empty", "policy_file": "/p.yaml"}, "policy_file"),
        ({"event": "growing", "max_growth_per_day": 1, "seconds": 5}, "seconds"),
        ({"event": "empty", "include": "orders"}, "include"),
        ({"event": "empty", "include": ["re:("]}, "include"),
        ({"event": "empty", "exclude": [5]}, "exclude"),
        ({"event": "empty", "include": 5}, "include"),
        ({"event": "empty", "poll_interval": 0}, "poll_interval"),
        ({"event": "empty", "report_present": "no"}, "report_present"),
        ({"event": "empty", "kafka_groups_conn_id": ""}, "kafka_groups_conn_id"),
    ],
)
def test_bad_input_is_refused_when_the_dag_is_parsed(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        GroupsEventTrigger(**arguments)


async def test_empty_groups_are_those_without_members(admin: FakeAdmin) -> None:
    admin.groups = {
        "empty": FakeGroup(),
        "live": FakeGroup(state=GroupState.STABLE, members=1),
        "untold": FakeGroup(state=GroupState.UNKNOWN),
    }
    sighting = await watch("empty").poll(admin)  # the fake
    assert (set(sighting.matching), set(sighting.known), sighting.complete) == ({"empty"}, {"empty", "live"}, True)
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    assert not (await watch("empty").poll(admin)).complete  # the fake


async def test_stale_groups_are_empty_and_unmoved_for_the_whole_time(admin: FakeAdmin) -> None:
    now = [100.0]
    one = watch("stale", seconds=60, clock=lambda: now[0])
    admin.groups = {
        "still": FakeGroup({T0: 5}),
        "moves": FakeGroup({T0: 5}),
        "no-commits": FakeGroup({}),
        "live": FakeGroup({T0: 5}, state=GroupState.STABLE, members=1),
    }
    assert await matching(one, admin) == set()
    now[0] += 59
    admin.commit("moves", *T0, 6)
    assert await matching(one, admin) == set()
    now[0] += 1
    assert await matching(one, admin) == {"still"}
    admin.errors["still"] = broker_error("NOT_COORDINATOR")
    sighting = await one.poll(admin)  # the fake
    assert "still" not in sighting.known
    admin.errors.clear()
    assert await matching(one, admin) == set(), "a gap begins the time again"


async def test_lagging_groups_are_more_than_so_far_behind(admin: FakeAdmin) -> None:
    admin.groups = {"at": FakeGroup({T0: 7}), "behind": FakeGroup({T0: 6}), "past": FakeGroup({T0: 11})}
    sighting = await watch("lagging", max_lag=3).poll(admin)  # the fake
    assert sighting.matching == {"behind": "lag 4"}
    assert sighting.known == {"at", "behind"}, "nobody knows what a commit beyond the end has read"
    admin.ends[T0] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    assert (await watch("lagging", max_lag=3).poll(admin)).known == set()  # the fake
    admin.ends[T0] = (9, 10)
    assert await matching(watch("lagging", max_lag=3), admin) == set(), "what is gone unread is no lag"


async def test_doubt_leaves_a_group_where_it_was(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "c": FakeGroup(state=GroupState.STABLE, members=1)}
    admin.groups["b"].state = GroupState.UNKNOWN
    sighting = await watch("empty").poll(admin)  # the fake
    assert matching_groups({"b", "c", "gone"}, sighting) == {"a", "b"}
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    sighting = await watch("empty").poll(admin)  # the fake
    assert matching_groups({"b", "c", "gone"}, sighting) == {"a", "b", "gone"}


@pytest.mark.parametrize("report_present", [False, True])
async def test_it_fires_when_groups_become_so_and_goes_on(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, report_present: bool
) -> None:
    listing = admin.list_groups

    async def refused(**_: object) -> Any:
        raise NoBrokerAvailableError("b1:9092", "refused")

    def heal() -> None:
        admin.list_groups = listing  # type: ignore[method-assign]
        admin.groups["b"] = FakeGroup()

    # What happens between two polls.
    script: list[Callable[[], object]] = [
        lambda: setattr(admin, "list_groups", refused),
        heal,
        lambda: admin.groups.pop("a"),
        lambda: admin.groups.update(a=FakeGroup()),
    ]

    admin.groups = {"a": FakeGroup(), "b": FakeGroup(state=GroupState.STABLE, members=1)}
    found = await payloads(GroupsEventTrigger(event="empty", report_present=report_present), monkeypatch, script)
    assert [event["groups"] for event in found] == ([["a"]] if report_present else []) + [["b"], ["a"]]
    last = found[-1]
    assert (last["version"], last["event"], last["count"]) == (1, "empty", 1)
    assert last["reasons"] == {"a": "has no members"}
    assert admin.closed == 2, "once after it was refused, once at the end"


async def test_an_event_has_the_first_thousand_groups(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor can Airflow's database store a zero byte."""
    many = {f"{number:04}": FakeGroup() for number in range(1_200)}
    (event,) = await payloads(
        GroupsEventTrigger(event="empty"), monkeypatch, [lambda: admin.groups.update({"\0": FakeGroup(), **many})]
    )
    assert event["count"] == 1_201
    assert (event["groups"][0], len(event["groups"]), len(event["reasons"])) == (r"\x00", 1_000, 20)


async def test_what_the_first_poll_could_not_see_has_not_become_so_when_it_is_seen(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A triggerer starts while a broker is down: that broker's groups were empty before, as far as anybody knows."""
    live = {"live": FakeGroup(state=GroupState.STABLE, members=1)}
    admin.groups = {"a": FakeGroup(), "unclear": FakeGroup(state=GroupState.UNKNOWN), **live}
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}

    def back() -> None:
        admin.missing_brokers = {}
        admin.groups = {**{f"of-broker-2-{n}": FakeGroup() for n in range(3)}, **admin.groups}
        admin.groups["unclear"] = FakeGroup()

    script: list[Callable[[], object]] = [
        back,
        lambda: admin.groups.update(new=FakeGroup()),
        lambda: admin.groups.update(live=FakeGroup()),
        lambda: admin.groups["of-broker-2-0"].__setattr__("state", GroupState.STABLE),
        lambda: admin.groups["of-broker-2-0"].__setattr__("state", GroupState.EMPTY),
    ]
    found = await payloads(GroupsEventTrigger(event="empty"), monkeypatch, script)
    assert [event["groups"] for event in found] == [["new"], ["live"], ["of-broker-2-0"]]


async def test_patterns_as_json_mean_what_they_say(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.groups = {"orders": FakeGroup(), "payments": FakeGroup()}
    one = GroupsEventTrigger(event="empty", include='["orders*"]', report_present=True)
    assert [event["groups"] for event in await payloads(one, monkeypatch, [])] == [["orders"]]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"event": "lagging", "max_lag": "4"}, {"max_lag": 4}),
        ({"event": "empty", "poll_interval": "1"}, {"poll_interval": 1}),
        ({"event": "growing", "max_growth_per_day": "5"}, {"max_growth_per_day": 5}),
    ],
)
def test_numbers_in_quotes_are_carried_as_numbers(arguments: dict[str, Any], read: dict[str, Any]) -> None:
    carried = GroupsEventTrigger(**arguments).serialize()[1]
    assert {name: carried[name] for name in read} == read
    assert not isinstance(carried[next(iter(read))], str)


@pytest.mark.parametrize("policy", ["s3://AKIAKEY:verysecretkey@bucket/policy.yaml", "policies/policy.yaml"])
def test_a_policy_file_with_a_password_or_a_relative_path_is_refused_and_not_stored(policy: str) -> None:
    with pytest.raises(ConfigurationError, match="policy_file") as caught:
        GroupsEventTrigger(event="growing", policy_file=policy)
    assert "verysecretkey" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("include", ["{{ var.value.team }}-*"]),
        ("exclude", ["a", "{{ var.value.team }}-*"]),
        ("exclude", '["{{ var.value.team }}-*"]'),
        ("exclude", {"{% if x %}a{% endif %}"}),
        ("kafka_groups_conn_id", "{{ var.value.connection }}"),
        ("policy_file", "/data/{{ var.value.site }}/policy.yaml"),
    ],
)
def test_a_template_is_refused_since_nobody_renders_it(name: str, value: Any) -> None:
    """An ``exclude`` that was read as it is excluded nothing, and the DAG that the event starts got those groups."""
    event: Any = {"event": "growing"} if name == "policy_file" else {"event": "empty"}
    with pytest.raises(ConfigurationError, match=rf"{name}: has a template, and Airflow renders none"):
        GroupsEventTrigger(**event, **{name: value})


def test_a_set_is_the_same_trigger_in_each_process() -> None:
    """Airflow starts a new trigger for an asset whose trigger differs, and that reports nothing of its first poll."""
    more: Any = iter(["a"])
    names: Any = {f"group-{number}" for number in range(9)}
    _, arguments = GroupsEventTrigger(event="empty", include=names, exclude=more).serialize()
    assert (arguments["include"], arguments["exclude"]) == (sorted(names), ["a"])
