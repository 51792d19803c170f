"""The membership's state machine, by scripted dialogues and by fate tables over every error code there is."""

import pytest

from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, MembershipError
from airflow_kafka_groups.kafka import GroupProtocol, JoinedMember, MemberOptions, Phase
from airflow_kafka_groups.kafka.membership.state import ErrorAction, Heartbeat, Membership, NextAction, error_action
from airflow_kafka_groups.kafka.protocol.answers import JoinAnswer, SyncAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    SYNC_GROUP,
    Api,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

NONE = ErrorCode.none
OPTIONS = MemberOptions(group_id="g", session_timeout=9, rebalance_timeout=30, heartbeat_interval=3)
PROTOCOLS = [GroupProtocol("p1", b"x")]
COORDINATOR = {
    NONE: ErrorAction.OK,
    ErrorCode.coordinator_load_in_progress: ErrorAction.RETRY,
    ErrorCode.coordinator_not_available: ErrorAction.FIND,
    ErrorCode.not_coordinator: ErrorAction.FIND,
}
MEMBER = {
    ErrorCode.rebalance_in_progress: ErrorAction.REJOIN,
    ErrorCode.illegal_generation: ErrorAction.FORGET_GENERATION,
    ErrorCode.unknown_member_id: ErrorAction.FORGET_MEMBER,
}
TABLES = {
    FIND_COORDINATOR: COORDINATOR | {ErrorCode.coordinator_load_in_progress: ErrorAction.FIND},
    JOIN_GROUP: COORDINATOR
    | {
        ErrorCode.member_id_required: ErrorAction.TAKE_MEMBER_ID,
        ErrorCode.unknown_member_id: ErrorAction.FORGET_MEMBER,
        ErrorCode.rebalance_in_progress: ErrorAction.RETRY,
    },
    SYNC_GROUP: COORDINATOR | MEMBER,
    HEARTBEAT: COORDINATOR | MEMBER,
}


@pytest.mark.parametrize("api", TABLES, ids=repr)
def test_every_code_has_an_action_and_what_is_not_known_ends_it(api: Api) -> None:
    for code in ErrorCode:
        assert error_action(api, code) is TABLES[api].get(code, ErrorAction.END)


def joined(generation: int = 1, leader: str = "m1", **fields: object) -> JoinAnswer:
    members = (JoinedMember("m1", None, b"x"), JoinedMember("m2", None, b"y")) if leader == "m1" else ()
    answer = JoinAnswer(
        error=NONE, generation=generation, protocol="p1", leader=leader, member_id="m1", members=members
    )
    return JoinAnswer(**{name: getattr(answer, name) for name in answer.__slots__} | fields)


def at_join() -> Membership:
    """Return a membership whose first JoinGroup is on its way."""
    state = Membership(OPTIONS, "toy")
    assert (state.next_action(0), state.generation, state.member_id) == (NextAction.PREPARE, -1, "")
    state.on_prepared()
    assert state.next_action(0) is NextAction.FIND
    state.on_found(NONE, 0)
    assert state.next_action(0) is NextAction.JOIN
    assert state.join(PROTOCOLS).member_id == ""
    return state


def at_sync(generation: int = 1) -> Membership:
    state = at_join()
    state.on_joined(joined(generation, leader="m2"), 0)
    assert state.next_action(0) is NextAction.SYNC
    return state


def stable(now: float = 0) -> Membership:
    state = at_sync()
    state.on_synced(SyncAnswer(NONE, b"mine"), now, now)
    assert state.next_action(now) is NextAction.COMPLETE
    state.on_completed()
    assert state.next_action(now) is NextAction.IDLE
    return state


def send_heartbeat(state: Membership, code: ErrorCode, sent: float = 1, now: float = 1) -> None:
    state.on_heartbeat(state.next_heartbeat(sent), code, now)


def test_the_first_join_is_repeated_under_the_id_the_coordinator_gives() -> None:
    state = at_join()
    state.on_joined(JoinAnswer(error=ErrorCode.member_id_required, member_id="m1"), 0)
    assert state.next_action(0) is NextAction.JOIN, "at once, and without another on_join_prepare"
    assert state.join(PROTOCOLS).member_id == "m1"


def test_a_leader_assigns_before_it_syncs() -> None:
    state = at_join()
    state.on_joined(joined(), 0)
    assert state.next_action(0) is NextAction.ASSIGN
    assert state.heartbeat_at() == 3, "heartbeats go on while it assigns"
    state.on_assigned({"m1": b"1", "m2": b"2"})
    assert state.next_action(0) is NextAction.SYNC
    assert state.heartbeat_at() is None, "SyncGroup may wait for the whole group"
    assert state.sync().assignments == {"m1": b"1", "m2": b"2"}


def test_a_leader_that_is_told_to_skip_assigns_nothing() -> None:
    state = at_join()
    state.on_joined(joined(skip_assignment=True), 0)
    assert state.next_action(0) is NextAction.SYNC
    assert state.sync().assignments == {}


def test_another_protocol_type_is_refused() -> None:
    state = at_join()
    state.on_joined(joined(protocol_type="consumer"), 0)
    assert isinstance(state.failure, MembershipError)


@pytest.mark.parametrize(
    "code",
    [code for code in ErrorCode if error_action(JOIN_GROUP, code) is ErrorAction.END],
    ids=lambda code: code.name,
)
def test_a_join_that_cannot_succeed_ends_it(code: ErrorCode) -> None:
    state = at_join()
    state.on_joined(JoinAnswer(error=code), 0)
    assert state.next_action(99) is NextAction.STOP
    assert isinstance(state.failure, BrokerError)
    assert state.failure.code == int(code)


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_whatever_a_sync_is_answered_nothing_but_success_gives_something_to_hold(code: ErrorCode) -> None:
    state = at_sync()
    state.on_synced(SyncAnswer(code, b"mine"), 0, 0)
    assert (state.synced is not None) == (code is NONE)
    if code is not NONE and state.failure is None:
        assert state.phase is Phase.UNJOINED
        assert state.next_action(99) in (NextAction.JOIN, NextAction.FIND)


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_what_a_heartbeat_is_answered_decides_what_is_still_held(code: ErrorCode) -> None:
    state = stable()
    send_heartbeat(state, code, sent=2, now=5)
    kept = error_action(HEARTBEAT, code) in (ErrorAction.OK, ErrorAction.RETRY, ErrorAction.FIND, ErrorAction.REJOIN)
    assert (state.synced is not None) == kept
    if state.synced is not None:
        assert state.synced.confirmed_at == (2 if code is NONE else 0), "only a success confirms, from when it was sent"


def test_a_lost_generation_keeps_the_member_id_and_a_lost_member_does_not() -> None:
    for code, member_id in ((ErrorCode.illegal_generation, "m1"), (ErrorCode.unknown_member_id, "")):
        state = stable()
        send_heartbeat(state, code)
        assert (state.next_action(1), state.generation, state.member_id) == (NextAction.PREPARE, -1, member_id)
        state.on_prepared()
        assert state.next_action(1) is NextAction.JOIN


def test_a_rebalance_prepares_with_the_old_generation_and_goes_on_beating_till_it_joins() -> None:
    state = stable()
    send_heartbeat(state, ErrorCode.rebalance_in_progress)
    assert (state.next_action(1), state.generation, state.member_id) == (NextAction.PREPARE, 1, "m1")
    assert state.heartbeat_at() == 4
    send_heartbeat(state, ErrorCode.rebalance_in_progress, 4, 4)
    state.on_prepared()
    assert state.next_action(4) is NextAction.JOIN
    state.join(PROTOCOLS)
    assert state.heartbeat_at() is None


def test_a_heartbeat_from_before_counts_for_nothing() -> None:
    state = stable()
    old = state.next_heartbeat(1)
    state.rejoin("because")
    state.next_action(1)
    state.on_prepared()
    state.next_action(1)
    state.join(PROTOCOLS)
    state.on_heartbeat(old, NONE, 2)
    assert state.synced is not None
    assert state.synced.confirmed_at == 0, "a join is on its way: what is held is not certain by this"
    state.on_joined(joined(2, leader="m2"), 2)
    state.on_synced(SyncAnswer(NONE, b"other"), 2, 3)
    state.on_heartbeat(old, ErrorCode.unknown_member_id, 3)
    assert state.synced.assignment == b"other"


def test_what_is_held_from_before_is_not_confirmed_by_a_generation_that_may_take_it_away() -> None:
    state = stable()
    state.rejoin("because")
    state.next_action(1)
    send_heartbeat(state, NONE, 1, 1)
    state.on_prepared()
    state.join(PROTOCOLS)
    state.on_joined(joined(2), 2)
    assert state.phase is Phase.ASSIGNING
    send_heartbeat(state, NONE, 2, 2)
    assert state.synced is not None
    assert (state.synced.generation, state.synced.confirmed_at) == (1, 0)


def test_an_old_broker_that_says_rebalance_while_the_leader_assigns_is_not_believed() -> None:
    state = at_join()
    state.on_joined(joined(), 0)
    send_heartbeat(state, ErrorCode.rebalance_in_progress)
    state.on_assigned({"m1": b"1", "m2": b"2"})
    state.on_synced(SyncAnswer(NONE, b"1"), 1, 1)
    state.on_completed()
    assert state.next_action(1) is NextAction.IDLE


def test_who_waited_long_for_its_sync_asks_at_once_whether_it_still_counts() -> None:
    state = at_sync()
    state.on_synced(SyncAnswer(NONE, b"mine"), 1, 25)
    assert state.synced is not None
    assert state.synced.confirmed_at == 1
    assert state.heartbeat_at() is not None
    assert state.heartbeat_at() <= 25  # type: ignore[operator]


def test_a_heartbeat_after_a_silence_confirms_no_longer_than_the_one_before_it_would_be_waited_for() -> None:
    """Both may have been suspended, and the next coordinator has counted since the heartbeat before."""
    state = stable()
    confirmed = []
    for sent in (4, 8.9, 11.9):
        send_heartbeat(state, NONE, sent)
        assert state.synced is not None
        confirmed.append(state.synced.confirmed_at)
    assert confirmed == [4, 8.5, 11.9], "half a session timeout more at once, and what it says by the next one"


def test_an_assignment_is_confirmed_for_no_longer_than_who_joined_then_would_be_waited_for() -> None:
    """A round may be over long before its answer is read: both were suspended, and another coordinator has counted."""
    state = at_join()
    state.on_joined(joined(leader="m2"), 12)
    state.on_synced(SyncAnswer(NONE, b"mine"), 12, 12)
    assert state.synced is not None
    assert state.synced.confirmed_at == 4.5
    state.on_completed()
    assert state.heartbeat_at() == 15
    send_heartbeat(state, NONE, 13, 13)
    assert state.synced.confirmed_at == 9, "and as usual by its heartbeats"


def test_a_round_that_others_make_long_is_no_silence() -> None:
    """Each rejoin would begin another round, as long as that one: the group would never come to rest."""
    state = at_join()
    state.on_joined(joined(leader="m2"), 100)
    state.on_synced(SyncAnswer(NONE, b"mine"), 100, 100)
    state.on_completed()
    send_heartbeat(state, NONE, 103, 103)
    assert state.next_action(103) is NextAction.IDLE
    assert state.synced is not None
    assert state.synced.confirmed_at == 9


def test_two_answers_right_after_a_silence_confirm_no_longer_than_one() -> None:
    """A broker goes on with a request that waited for it, and answers the next one before it learns who replaced it."""
    state = stable()
    send_heartbeat(state, NONE, 8, 10.5)
    assert state.synced is not None
    assert (state.synced.confirmed_at, state.heartbeat_at()) == (4.5, 13.5)
    assert state.next_action(10.5) is NextAction.IDLE
    send_heartbeat(state, NONE, 30, 34.5)
    assert state.synced.confirmed_at == 4.5
    assert (state.next_action(34.5), state.generation, state.member_id) == (NextAction.PREPARE, 1, "m1"), (
        "it was silent until the answer, not until the request"
    )


def test_a_coordinator_that_moved_is_looked_for_with_growing_pauses_and_the_generation_lives() -> None:
    state = stable()
    pauses = []
    for _ in range(6):
        send_heartbeat(state, ErrorCode.not_coordinator, 1, 1)
        assert state.next_action(1) is NextAction.PAUSE
        pauses.append(round(state.pause_until - 1, 3))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1, 1]
    assert state.next_action(2) is NextAction.FIND
    assert state.generation == 1


def test_an_answer_that_is_lost_means_join_again_but_a_lost_heartbeat_does_not() -> None:
    state = at_sync()
    state.on_lost(0)
    assert state.phase is Phase.UNJOINED
    state = stable()
    state.on_heartbeat_lost(state.next_heartbeat(1), 1)
    assert state.phase is Phase.STABLE
    state = at_join()
    state.on_heartbeat_lost(Heartbeat(-1, "", False, 0), 0)
    assert state.phase is Phase.JOINING, "the join that is on its way goes on"


def test_a_new_round_ends_the_tries_of_the_last() -> None:
    state = at_sync()
    state.on_synced(SyncAnswer(NONE, b"mine"), 0, 0)
    send_heartbeat(state, ErrorCode.rebalance_in_progress)
    state.on_complete_failed(OSError(), 1)
    assert (state.next_action(1), state.generation, state.member_id) == (NextAction.PREPARE, 1, "m1")


def test_leaving_ends_what_is_held_before_anyone_is_told() -> None:
    state = stable()
    assert state.leave() is True
    assert state.synced is None
    assert state.heartbeat_at() is None
    assert Membership(OPTIONS, "toy").leave() is False, "there is nobody to tell"


@pytest.mark.parametrize("protocols", [[], [GroupProtocol("")], [GroupProtocol("a", "text")]])  # type: ignore[arg-type]
def test_protocols_that_cannot_be_joined_with(protocols: list[GroupProtocol]) -> None:
    state = Membership(OPTIONS, "toy")
    with pytest.raises(ConfigurationError, match="at least one GroupProtocol"):
        state.join(protocols)
    assert state.phase is Phase.UNJOINED


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": ""},
        {"session_timeout": 0},
        {"session_timeout": 8},
        {"rebalance_timeout": 5},
        {"heartbeat_interval": 4},
        {"session_timeout": float("nan")},
    ],
)
def test_options_that_contradict_each_other_are_named(wrong: dict[str, object]) -> None:
    fields: dict[str, object] = {"group_id": "g", "session_timeout": 9, "rebalance_timeout": 9, "heartbeat_interval": 3}
    with pytest.raises(ConfigurationError):
        MemberOptions(**{**fields, **wrong})  # type: ignore[arg-type]
    MemberOptions(**fields)  # type: ignore[arg-type]
