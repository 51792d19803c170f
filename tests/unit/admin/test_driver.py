"""The driver's behaviour as scripted dialogues: each ``asks()`` says what is sent, each line below what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_kafka_groups.admin.requests import DriverLimits
from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    MissingAnswerError,
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    OutcomeUnknownError,
    PartitionOffsetsError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.models import GroupOffsets, TopicPartition
from tests.unit.admin.dialogue import TIMEOUT, Dialogue, ToyHandler, broker

MOVED = KafkaGroupsError("NOT_COORDINATOR")
LOADING = KafkaGroupsError("COORDINATOR_LOAD_IN_PROGRESS")
LOST = ConnectionFailedError("b1:9092", "connection lost")


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
        "abcdefg", mapping=dict.fromkeys("abcdefg", 1), limits=DriverLimits(batch_size=2, batches_in_flight=2)
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
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b")], "singly, at once, side by side"
        talk.answer("cd", completed={"c": 3, "d": 4})
        talk.answer("b", completed={"b": 2})
        talk.answer("a", completed={"a": 1})
        assert talk.results() == {"a": 1, "b": 2, "c": 3, "d": 4}

    def test_falling_back_in_lookups_does_not_unbatch_the_question(self) -> None:
        talk = Dialogue("ab")
        assert talk.asks() == [("lookup", 1, "ab")]
        talk.fail("ab", NoBatchedFindCoordinatorsError("v3"))
        assert talk.asks() == [("lookup", 1, "a"), ("lookup", 1, "b")]
        talk.found("a", a=1)
        talk.found("b", b=1)
        assert talk.asks() == [("ask", 1, "ab")]

    def test_lookups_prefer_a_broker_that_batches(self) -> None:
        talk = Dialogue("abcd", brokers=[1, 2], limits=DriverLimits(lookup_batch_size=2, batches_in_flight=1))
        assert {broker_id for _, broker_id, _ in talk.asks()} == {1, 2}
        old = talk.flying[0]
        new = talk.flying[1]
        talk.fail("".join(old.keys), NoBatchedFindCoordinatorsError("v3"))
        talk.found("".join(new.keys), **dict.fromkeys(new.keys, 1))
        asked = talk.asks()
        assert ("lookup", new.broker_id, "".join(old.keys)) in asked
        assert all(broker_id != old.broker_id for stage, broker_id, _ in asked if stage == "lookup")

    def test_single_requests_are_pipelined_up_to_their_own_limit(self) -> None:
        limits = DriverLimits(batch_size=10, batches_in_flight=1, singles_in_flight=3)
        talk = Dialogue("abcde", mapping=dict.fromkeys("abcde", 1), limits=limits)
        talk.asks()
        talk.fail("abcde", NoBatchedOffsetFetchError("v7"))
        assert [keys for _, _, keys in talk.asks()] == ["a", "b", "c"]
        talk.answer("b", completed={"b": 2})
        assert [keys for _, _, keys in talk.asks()] == ["d"], "no pause after a success"

    def test_a_single_key_that_is_refused_as_too_many_fails(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.fail("a", NoBatchedOffsetFetchError("a broken builder"))
        assert isinstance(talk.results()["a"], NoBatchedOffsetFetchError)


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
        limits = DriverLimits(batch_size=2, batches_in_flight=1, lookup_batch_size=10)
        talk = Dialogue("abcdef", mapping=dict.fromkeys("abcdef", 1), limits=limits)
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

    def test_one_bad_key_fails_alone(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        talk.answer("ab", completed={"a": 1}, failed={"b": MOVED})
        assert talk.results() == {"a": 1, "b": MOVED}

    def test_unstable_partitions_are_asked_again_some_times_then_reported(self) -> None:
        unstable = PartitionOffsetsError("a", {TopicPartition("t", 0): MOVED}, GroupOffsets("a"))
        talk = Dialogue("a", mapping={"a": 1})
        for tries in range(1, 9):
            assert talk.asks() == [("ask", 1, "a")]
            talk.answer("a", retry={"a": unstable})
            if tries < 8:
                talk.sleep()
        assert talk.results() == {"a": unstable}
        assert talk.now < TIMEOUT / 4, "long before the deadline of the whole call"


class TestTooMuch:
    def test_a_request_that_was_too_much_goes_again_in_halves(self) -> None:
        talk = Dialogue("abcde", mapping=dict.fromkeys("abcde", 1))
        assert talk.asks() == [("ask", 1, "abcde")]
        talk.answer("abcde", completed={"e": 5}, too_much=dict.fromkeys("abcd", MOVED))
        assert talk.asks() == [("ask", 1, "ab"), ("ask", 1, "cd")]
        talk.answer("ab", completed={"a": 1, "b": 2})
        talk.answer("cd", too_much={"c": MOVED, "d": MOVED})
        assert talk.asks() == [("ask", 1, "c"), ("ask", 1, "d")]
        talk.answer("c", completed={"c": 3})
        talk.answer("d", too_much={"d": MOVED})
        assert talk.results() == {"e": 5, "a": 1, "b": 2, "c": 3, "d": MOVED}

    def test_requests_are_cut_by_what_they_make_a_bucket_write(self) -> None:
        talk = Dialogue("aAbBcC", mapping=dict.fromkeys("aAbBcC", 1), weights=ToyWeights(budget=20))
        assert talk.asks() == [("ask", 1, "aAbB"), ("ask", 1, "cC")], "10 each: two of a bucket fit"

    def test_a_key_that_is_heavier_than_the_budget_goes_alone(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1), weights=ToyWeights(budget=5))
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b"), ("ask", 1, "c")]


@dataclass(frozen=True)
class ToyWeights:
    budget: int

    def bucket(self, key: str) -> int:
        return int(key.isupper())

    def weight(self, key: str) -> int:
        return 10


class TestFailures:
    def test_a_lost_connection_sends_all_the_brokers_keys_to_lookup(self) -> None:
        limits = DriverLimits(batch_size=1, batches_in_flight=1, lookup_batch_size=10)
        talk = Dialogue("ab", brokers=[2], mapping={"a": 1, "b": 1}, limits=limits)
        assert talk.asks() == [("ask", 1, "a")]
        talk.fail("a", LOST)
        assert talk.asks() == [("lookup", 2, "b")], "it does not have to find out by itself"
        talk.found("b", b=2)
        assert talk.asks() == [("ask", 2, "b")]
        talk.sleep()
        assert talk.asks() == [("lookup", 2, "a")]

    def test_a_lookup_that_fails_goes_to_another_broker(self) -> None:
        talk = Dialogue("a", brokers=[1, 2])
        ((_, first, _),) = talk.asks()
        talk.fail("a", RequestTimeoutError("slow"), sent=True)
        talk.sleep()
        ((stage, second, _),) = talk.asks()
        assert (stage, second) == ("lookup", 3 - first)

    def test_refused_credentials_are_final(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1})
        talk.asks()
        refused = AuthenticationFailedError("b1:9092", "bad password")
        talk.fail("ab", refused)
        assert talk.results() == {"a": refused, "b": refused}

    def test_a_version_without_common_ground_is_final(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.fail("a", UnsupportedVersionError("too old"))
        assert isinstance(talk.results()["a"], UnsupportedVersionError)

    def test_a_deletion_whose_answer_is_lost_is_not_sent_again(self) -> None:
        talk = Dialogue("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.fail("a", LOST, sent=True)
        assert isinstance(talk.results()["a"], OutcomeUnknownError)
        assert talk.asks() == []

    def test_a_deletion_that_never_left_is_tried_again(self) -> None:
        talk = Dialogue("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.fail("a", LOST, sent=False)
        talk.sleep()
        assert talk.asks() == [("lookup", 1, "a")]

    def test_a_listing_gives_up_on_a_broker_after_some_tries(self) -> None:
        talk = Dialogue("a", lookup=False, mapping={"a": 1}, limits=DriverLimits(give_up_after=3))
        for _ in range(3):
            assert talk.asks() == [("ask", 1, "a")]
            talk.fail("a", LOST)
            talk.sleep()
        assert talk.results() == {"a": LOST}


class TestTime:
    def test_at_the_deadline_what_is_left_fails_and_names_its_broker(self) -> None:
        talk = Dialogue("abc", brokers=[4], mapping={"a": 1, "b": 2})
        talk.asks()
        talk.answer("b", retry={"b": LOADING})
        talk.now = TIMEOUT
        assert talk.asks() == []
        results = talk.results()
        assert talk.driver.done
        assert all(isinstance(error, DeadlineExceededError) for error in results.values())
        assert "broker 1 to answer OffsetFetch" in str(results["a"])
        assert "COORDINATOR_LOAD_IN_PROGRESS" in str(results["b"])
        assert "broker 4 to answer FindCoordinator" in str(results["c"])

    def test_a_deletion_under_way_at_the_deadline_is_of_unknown_outcome(self) -> None:
        talk = Dialogue("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.now = TIMEOUT
        talk.asks()
        assert isinstance(talk.results()["a"], OutcomeUnknownError)

    def test_an_answer_after_the_deadline_changes_nothing(self) -> None:
        talk = Dialogue("a", mapping={"a": 1})
        talk.asks()
        talk.now = TIMEOUT
        talk.asks()
        talk.results()
        talk.answer("a", completed={"a": 1})
        assert talk.results() == {}
        assert talk.driver.remaining == 0

    def test_a_throttled_broker_is_left_alone_for_as_long_as_it_says(self) -> None:
        limits = DriverLimits(batch_size=1, batches_in_flight=1)
        talk = Dialogue("ab", mapping={"a": 1, "b": 1}, limits=limits)
        talk.asks()
        talk.answer("a", throttle=2.5, completed={"a": 1})
        assert talk.asks() == []
        assert talk.driver.wake_at(talk.now) == pytest.approx(2.5)
        talk.sleep()
        assert talk.asks() == [("ask", 1, "b")]
