"""The driver's behaviour as scripted dialogues: each ``asks()`` says what is sent, each line below what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    KafkaGroupsError,
    MissingAnswerError,
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    PartitionOffsetsError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka.admin.engine.handler import HandlerResult
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR
from tests.unit.kafka.admin.engine.dialogue import SHARED, TIMEOUT, Dialogue, ToyAnswer, ToyHandler, broker

MOVED = KafkaGroupsError("NOT_COORDINATOR")
REFUSED = KafkaGroupsError("GROUP_AUTHORIZATION_FAILED")
LOADING = KafkaGroupsError("COORDINATOR_LOAD_IN_PROGRESS")


def test_keys_are_looked_up_together_and_asked_of_their_brokers() -> None:
    talk = Dialogue("abc", brokers=[1])
    assert talk.asks() == [("lookup", 1, "abc")]
    talk.found("abc", a=1, b=2, c=1)
    assert talk.asks() == [("ask", 1, "ac"), ("ask", 2, "b")]
    talk.answer("ac", completed={"a": 10, "c": 30})
    assert talk.results() == {"a": 10, "c": 30}
    assert not talk.driver.done
    talk.answer("b", completed={"b": 20})
    assert talk.results() == {"b": 20}
    assert talk.driver.done
    assert talk.asks() == []


def test_duplicate_keys_are_asked_once() -> None:
    assert Dialogue("abab").asks() == [("lookup", 1, "ab")]


def test_without_keys_there_is_nothing_to_do() -> None:
    talk = Dialogue("")
    assert talk.driver.done
    assert talk.asks() == []


def test_without_a_handler_the_broker_is_the_answer() -> None:
    talk = Dialogue("ab", handler=None)
    talk.asks()
    talk.found("ab", a=1, b=2)
    assert talk.results() == {"a": broker(1), "b": broker(2)}


def test_a_call_for_brokers_only_reports_each_of_them_once() -> None:
    talk = Dialogue("abc", handler=None)
    talk.asks()
    talk.found("abc", a=1, b=2, c=1)
    assert talk.driver.take_discovered() == [broker(1), broker(2)]


def test_brokers_found_are_told_with_their_addresses() -> None:
    talk = Dialogue("a")
    talk.asks()
    talk.found("a", a=7)
    assert talk.driver.take_discovered() == [broker(7)]
    assert talk.driver.take_discovered() == []


def test_known_coordinators_are_asked_at_once() -> None:
    talk = Dialogue("abc", mapping={"a": 1, "b": 2})
    assert talk.asks() == [("ask", 1, "a"), ("ask", 2, "b"), ("lookup", 1, "c")]


def test_a_broker_gets_so_many_keys_a_request_and_so_many_requests() -> None:
    talk = Dialogue(
        "abcdefg",
        mapping=dict.fromkeys("abcdefg", 1),
        handler=ToyHandler(batch_size=2),
        limits=DriverLimits(batches_in_flight=2),
    )
    assert talk.asks() == [("ask", 1, "ab"), ("ask", 1, "cd")]
    assert talk.asks() == []
    talk.answer("ab", completed={"a": 1, "b": 2})
    assert talk.asks() == [("ask", 1, "ef")]


class TestFallback:
    def test_one_old_broker_does_not_unbatch_the_others(self) -> None:
        talk = Dialogue("abcd", mapping={"a": 1, "b": 1, "c": 2, "d": 2})
        assert talk.asks() == [("ask", 1, "ab"), ("ask", 2, "cd")]
        talk.fail("ab", NoBatchedOffsetFetchError("v7"))
        assert talk.asks() == [("ask", 1, "ab")]
        assert [spec.singly for spec in talk.in_flight_specs] == [False, True], "one request for each, sent together"
        talk.answer("cd", completed={"c": 3, "d": 4})
        talk.answer("ab", completed={"a": 1, "b": 2})
        assert talk.results() == {"a": 1, "b": 2, "c": 3, "d": 4}

    def test_falling_back_in_lookups_does_not_unbatch_the_question(self) -> None:
        talk = Dialogue("ab")
        assert talk.asks() == [("lookup", 1, "ab")]
        talk.fail("ab", NoBatchedFindCoordinatorsError("v3"))
        assert talk.asks() == [("lookup", 1, "ab")]
        assert talk.in_flight_specs[0].singly
        talk.found("ab", a=1, b=1)
        assert talk.asks() == [("ask", 1, "ab")]
        assert not talk.in_flight_specs[0].singly

    def test_single_lookups_are_spread_over_the_brokers(self) -> None:
        talk = Dialogue("abcdef", brokers=[1, 2, 3], lookup=ToyHandler(FIND_COORDINATOR, batch_size=1))
        assert [(broker_id, len(keys)) for _, broker_id, keys in talk.asks()] == [(1, 2), (2, 2), (3, 2)]

    def test_lookups_prefer_a_broker_that_batches(self) -> None:
        lookup = ToyHandler(FIND_COORDINATOR, batch_size=2)
        talk = Dialogue("abcd", brokers=[1, 2], lookup=lookup, limits=DriverLimits(batches_in_flight=1))
        assert {broker_id for _, broker_id, _ in talk.asks()} == {1, 2}
        old = talk.in_flight_specs[0]
        new = talk.in_flight_specs[1]
        talk.fail("".join(old.keys), NoBatchedFindCoordinatorsError("v3"))
        talk.found("".join(new.keys), **dict.fromkeys(new.keys, 1))
        asked = talk.asks()
        assert ("lookup", new.scope.broker_id, "".join(old.keys)) in asked
        assert all(broker_id != old.scope.broker_id for stage, broker_id, _ in asked if stage == "lookup")

    def test_single_requests_are_pipelined_up_to_their_own_limit(self) -> None:
        limits = DriverLimits(batches_in_flight=1, singles_in_flight=5, series=3)
        talk = Dialogue("abcdefghij", mapping=dict.fromkeys("abcdefghij", 1), limits=limits)
        talk.asks()
        talk.fail("abcdefghij", NoBatchedOffsetFetchError("v7"))
        assert [keys for _, _, keys in talk.asks()] == ["abc", "de"]
        talk.answer("de", completed={"d": 4, "e": 5})
        assert [keys for _, _, keys in talk.asks()] == ["fg"], "no pause after a success"

    def test_requests_of_a_series_may_have_different_ends(self) -> None:
        limits = DriverLimits(singles_in_flight=3, series=3)
        talk = Dialogue("abcdef", mapping=dict.fromkeys("abcdef", 1), limits=limits)
        talk.asks()
        talk.fail("abcdef", NoBatchedOffsetFetchError("v7"))
        talk.asks()
        (series,) = talk.in_flight_specs
        talk.in_flight_specs.append(talk.driver.part(series, "b"))
        assert talk.asks() == []
        talk.answer("ac", completed={"a": 1, "c": 3})
        assert talk.asks() == [("ask", 1, "de")], "the one that was parted still takes room"
        talk.answer("b", failed={"b": REFUSED})
        assert talk.asks() == [("ask", 1, "f")]
        assert talk.results() == {"a": 1, "b": REFUSED, "c": 3}

    def test_what_an_answer_says_of_other_groups_than_its_own_does_not_count(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        talk.fail("ab", NoBatchedOffsetFetchError("v7"))
        talk.asks()
        both, none = (ToyAnswer(HandlerResult(completed)) for completed in ({"a": 1, "b": 2}, {}))
        talk.driver.on_response(talk.now, talk.take("ab"), 7, both, none)
        results = talk.results()
        assert results["a"] == 1
        assert isinstance(results["b"], MissingAnswerError)

    def test_a_single_key_that_is_refused_as_too_many_fails(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.fail("a", NoBatchedOffsetFetchError("a broken builder"))
        assert isinstance(talk.results()["a"], NoBatchedOffsetFetchError)

    def test_a_series_that_is_refused_as_too_many_fails(self) -> None:
        """It asks for one key a request already: to ask in the same way again has no end."""
        talk = Dialogue("ab", mapping={"a": 1, "b": 1}, handler=ToyHandler(batch_size=1))
        assert talk.asks() == [("ask", 1, "ab")]
        talk.fail("ab", NoBatchedOffsetFetchError("a broken builder"))
        assert talk.asks() == []
        assert [type(error) for error in talk.results().values()] == [NoBatchedOffsetFetchError] * 2


class TestFates:
    def test_a_wrong_guess_costs_no_pause(self) -> None:
        talk = Dialogue("abc", mapping={"a": 1, "b": 1, "c": 1})
        talk.asks()
        talk.answer("abc", completed={"a": 1, "b": 2}, unmapped={"c": MOVED})
        assert talk.asks() == [("lookup", 1, "c")]
        talk.found("c", c=2)
        assert talk.asks() == [("ask", 2, "c")]

    def test_a_key_that_moves_again_and_again_is_looked_up_after_growing_pauses(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        pauses = []
        talk.asks()
        talk.answer("a", unmapped={"a": MOVED})
        for _ in range(4):  # then comes the longest pause
            talk.asks()
            talk.found("a", a=2)
            talk.asks()
            talk.answer("a", unmapped={"a": MOVED})
            assert talk.asks() == []
            before = talk.now
            talk.sleep()
            pauses.append(talk.now - before)
        assert pauses == sorted(pauses)
        assert pauses[-1] > 4 * pauses[0]

    def test_when_most_guesses_are_wrong_the_rest_is_looked_up(self) -> None:
        limits = DriverLimits(batches_in_flight=1)
        talk = Dialogue("abcdef", mapping=dict.fromkeys("abcdef", 1), handler=ToyHandler(batch_size=2), limits=limits)
        assert talk.asks() == [("ask", 1, "ab")]
        talk.answer("ab", unmapped={"a": MOVED, "b": MOVED})
        (request,) = talk.asks()
        assert request[0] == "lookup"
        assert sorted(request[2]) == list("abcdef")

    def test_loading_is_asked_of_the_same_broker_after_a_pause(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.answer("a", retry={"a": LOADING})
        assert talk.asks() == []
        talk.sleep()
        assert talk.asks() == [("ask", 1, "a")]

    def test_a_lookup_that_must_wait_is_looked_up_again(self) -> None:
        talk = Dialogue("a")
        talk.asks()
        talk.answer("a", retry={"a": LOADING})
        talk.sleep()
        assert talk.asks() == [("lookup", 1, "a")]

    def test_a_key_the_broker_left_out_fails_by_its_name(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        talk.answer("ab", completed={"a": 1})
        results = talk.results()
        assert results["a"] == 1
        assert isinstance(results["b"], MissingAnswerError)
        assert "'b'" in str(results["b"])

    def test_a_key_that_was_not_asked_for_is_ignored(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.answer("a", completed={"a": 1, "z": 9}, failed={"y": MOVED}, unmapped={"x": MOVED}, retry={"w": MOVED})
        assert talk.results() == {"a": 1}
        assert talk.driver.done
        assert talk.asks() == []

    def test_a_key_that_is_said_to_have_failed_as_well_has_failed(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        talk.answer("ab", completed={"a": 1, "b": 2}, failed={"b": MOVED})
        assert talk.results() == {"a": 1, "b": MOVED}

    @pytest.mark.safety
    @pytest.mark.parametrize("also", [{"unmapped": {"b": MOVED}}, {"retry": {"b": LOADING}}])
    def test_a_key_that_is_said_to_be_done_and_not_done_is_not_asked_again(self, also: dict[str, Any]) -> None:
        talk = Dialogue("abc", mapping={"a": 1, "b": 1, "c": 1})
        talk.asks()
        talk.answer("abc", completed={"a": 1, "b": 2}, **{"retry": {"c": LOADING}, **also})
        asked = talk.asks()
        talk.sleep()
        assert not any("b" in keys for _, _, keys in [*asked, *talk.asks()])
        results = talk.results()
        assert results["a"] == 1
        assert isinstance(results["b"], RemoteProtocolError)

    @pytest.mark.safety
    @pytest.mark.parametrize("said", ["completed", "unmapped", "retry"])
    def test_of_what_failed_together_a_key_of_which_more_was_said_is_not_asked_again(self, said: str) -> None:
        talk = Dialogue("abc", mapping={"a": 1, "b": 1, "c": 1})
        talk.asks()
        more: dict[str, Any] = {said: {"b": MOVED}}
        talk.answer("abc", failed=dict.fromkeys("abc", SHARED), **more)
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "c")]
        assert talk.results() == {"b": SHARED}

    @pytest.mark.safety
    def test_a_key_whose_lookup_failed_and_did_not_is_not_asked_of_the_broker_found(self) -> None:
        """It has failed by then: a deletion that leaves after that would not be on record."""
        talk = Dialogue("ab")
        talk.asks()
        talk.answer("ab", completed={"a": broker(1), "b": broker(1)}, failed={"b": MOVED})
        assert talk.results() == {"b": MOVED}
        assert talk.asks() == [("ask", 1, "a")]

    def test_one_bad_key_fails_alone(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        talk.answer("ab", completed={"a": 1}, failed={"b": MOVED})
        assert talk.results() == {"a": 1, "b": MOVED}

    def test_unstable_partitions_are_asked_again_some_times_then_reported(self) -> None:
        unstable = PartitionOffsetsError("a", {TopicPartition("t", 0): MOVED}, GroupOffsets("a"))
        tries_of_handler = ListGroupOffsetsHandler({}).max_tries(unstable)
        talk = Dialogue("a", mapping={"a": 1}, handler=ToyHandler(tries=tries_of_handler))
        for tries in range(1, 9):
            assert talk.asks() == [("ask", 1, "a")]
            talk.answer("a", retry={"a": unstable})
            if tries < 8:
                talk.sleep()
        assert talk.results() == {"a": unstable}
        assert talk.now < TIMEOUT / 4, "long before the deadline of the whole call"
