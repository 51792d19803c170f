"""The driver's behaviour as scripted dialogues: each ``asks()`` says what is sent, each line below what comes back."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    MissingAnswerError,
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    NotSentError,
    OutcomeUnknownError,
    PartitionOffsetsError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.engine.handler import HandlerResult
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR
from tests.unit.kafka.admin.engine.dialogue import SHARED, TIMEOUT, Dialogue, ToyAnswer, ToyHandler, begun, broker

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
    talk = begun("ab", handler=None)
    talk.found("ab", a=1, b=2)
    assert talk.results() == {"a": broker(1), "b": broker(2)}


def test_a_call_for_brokers_only_reports_each_of_them_once() -> None:
    talk = begun("abc", handler=None)
    talk.found("abc", a=1, b=2, c=1)
    assert talk.driver.take_discovered() == [broker(1), broker(2)]


def test_brokers_found_are_told_with_their_addresses() -> None:
    talk = begun("a")
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
        talk = begun("abcdefghij", mapping=dict.fromkeys("abcdefghij", 1), limits=limits)
        talk.fail("abcdefghij", NoBatchedOffsetFetchError("v7"))
        assert [keys for _, _, keys in talk.asks()] == ["abc", "de"]
        talk.answer("de", completed={"d": 4, "e": 5})
        assert [keys for _, _, keys in talk.asks()] == ["fg"], "no pause after a success"

    def test_requests_of_a_series_may_have_different_ends(self) -> None:
        limits = DriverLimits(singles_in_flight=3, series=3)
        talk = begun("abcdef", mapping=dict.fromkeys("abcdef", 1), limits=limits)
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
        talk = begun("ab", mapping={"a": 1, "b": 1})
        talk.fail("ab", NoBatchedOffsetFetchError("v7"))
        talk.asks()
        both, none = (ToyAnswer(HandlerResult(completed)) for completed in ({"a": 1, "b": 2}, {}))
        talk.driver.on_response(talk.now, talk.take("ab"), 7, both, none)
        results = talk.results()
        assert results["a"] == 1
        assert isinstance(results["b"], MissingAnswerError)

    def test_a_single_key_that_is_refused_as_too_many_fails(self) -> None:
        talk = begun("a", mapping={"a": 1})
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
        talk = begun("abc", mapping={"a": 1, "b": 1, "c": 1})
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

    def test_loading_is_asked_of_the_same_broker_after_a_pause(self) -> None:
        talk = begun("a", mapping={"a": 1})
        talk.answer("a", retry={"a": LOADING})
        assert talk.asks() == []
        talk.sleep()
        assert talk.asks() == [("ask", 1, "a")]

    def test_a_lookup_that_must_wait_is_looked_up_again(self) -> None:
        talk = begun("a")
        talk.answer("a", retry={"a": LOADING})
        talk.sleep()
        assert talk.asks() == [("lookup", 1, "a")]

    def test_a_key_that_was_not_asked_for_is_ignored(self) -> None:
        talk = begun("a", mapping={"a": 1})
        talk.answer("a", completed={"a": 1, "z": 9}, failed={"y": MOVED}, unmapped={"x": MOVED}, retry={"w": MOVED})
        assert talk.results() == {"a": 1}
        assert talk.driver.done
        assert talk.asks() == []

    def test_a_key_that_is_said_to_have_failed_as_well_has_failed(self) -> None:
        talk = begun("ab", mapping={"a": 1, "b": 1})
        talk.answer("ab", completed={"a": 1, "b": 2}, failed={"b": MOVED})
        assert talk.results() == {"a": 1, "b": MOVED}

    @pytest.mark.safety
    @pytest.mark.parametrize("also", [{"unmapped": {"b": MOVED}}, {"retry": {"b": LOADING}}])
    def test_a_key_that_is_said_to_be_done_and_not_done_is_not_asked_again(self, also: dict[str, Any]) -> None:
        talk = begun("abc", mapping={"a": 1, "b": 1, "c": 1})
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
        talk = begun("abc", mapping={"a": 1, "b": 1, "c": 1})
        more: dict[str, Any] = {said: {"b": MOVED}}
        talk.answer("abc", failed=dict.fromkeys("abc", SHARED), **more)
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "c")]
        assert talk.results() == {"b": SHARED}

    @pytest.mark.safety
    def test_a_key_whose_lookup_failed_and_did_not_is_not_asked_of_the_broker_found(self) -> None:
        """It has failed by then: a deletion that leaves after that would not be on record."""
        talk = begun("ab")
        talk.answer("ab", completed={"a": broker(1), "b": broker(1)}, failed={"b": MOVED})
        assert talk.results() == {"b": MOVED}
        assert talk.asks() == [("ask", 1, "a")]

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


DENIED = KafkaGroupsError("refused")
GARBLED = RemoteProtocolError("it ends too early")
LOST = ConnectionFailedError("b1:9092", "connection lost")


class TestTooMuch:
    def test_a_request_that_was_too_much_goes_again_in_halves(self) -> None:
        talk = Dialogue("abcde", mapping=dict.fromkeys("abcde", 1))
        assert talk.asks() == [("ask", 1, "abcde")]
        talk.answer("abcde", completed={"e": 5}, failed=dict.fromkeys("abcd", SHARED))
        assert talk.asks() == [("ask", 1, "ab"), ("ask", 1, "cd")]
        talk.answer("ab", completed={"a": 1, "b": 2})
        talk.answer("cd", failed=dict.fromkeys("cd", SHARED))
        assert talk.asks() == [("ask", 1, "c"), ("ask", 1, "d")]
        talk.answer("c", completed={"c": 3})
        talk.answer("d", failed={"d": SHARED})
        assert talk.results() == {"e": 5, "a": 1, "b": 2, "c": 3, "d": SHARED}

    def test_a_key_that_failed_while_the_others_did_not_is_not_asked_again(self) -> None:
        talk = begun("abc", mapping=dict.fromkeys("abc", 1))
        talk.answer("abc", completed={"a": 1, "b": 2}, failed={"c": SHARED})
        assert talk.results() == {"a": 1, "b": 2, "c": SHARED}

    def test_lookups_go_again_in_halves_too(self) -> None:
        talk = begun("abc")
        talk.answer("abc", failed=dict.fromkeys("abc", SHARED))
        assert talk.asks() == [("lookup", 1, "a"), ("lookup", 1, "bc")]
        talk.answer("a", failed={"a": SHARED})
        talk.found("bc", b=1, c=2)
        assert talk.asks() == [("ask", 1, "b"), ("ask", 2, "c")]
        assert talk.results() == {"a": SHARED}

    def test_an_answer_that_cannot_be_read_is_asked_for_in_halves(self) -> None:
        talk = begun("abc", mapping=dict.fromkeys("abc", 1))
        talk.fail("abc", GARBLED, sent=True)
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "bc")]
        talk.fail("a", GARBLED, sent=True)
        talk.answer("bc", completed={"b": 2, "c": 3})
        assert talk.results() == {"a": GARBLED, "b": 2, "c": 3}

    @pytest.mark.safety
    def test_a_change_whose_answer_cannot_be_read_is_not_sent_again(self) -> None:
        talk = begun("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(resend_after_loss=False))
        talk.fail("abc", GARBLED, sent=True)
        assert talk.asks() == []
        assert {type(error) for error in talk.results().values()} == {OutcomeUnknownError}

    def test_at_the_deadline_a_half_names_why_the_whole_failed(self) -> None:
        talk = begun("ab", mapping=dict.fromkeys("ab", 1))
        talk.answer("ab", failed=dict.fromkeys("ab", SHARED))
        talk.asks()
        talk.now = TIMEOUT
        talk.asks()
        for error in talk.results().values():
            assert isinstance(error, DeadlineExceededError)
            assert "UNKNOWN_SERVER_ERROR" in str(error)

    def test_a_part_that_was_not_sent_any_more_may_have_happened_in_the_whole(self) -> None:
        talk = begun("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(resend_after_loss=False))
        talk.answer("abc", completed={"c": 3}, failed={"a": SHARED, "b": SHARED})
        talk.asks()
        talk.fail("a", NotSentError("too late"))
        talk.answer("b", completed={"b": 2})
        results = talk.results()
        assert isinstance(results["a"], OutcomeUnknownError)

    def test_a_retry_that_is_not_sent_any_more_may_have_happened_at_the_first_try(self) -> None:
        """NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE also come when a deletion was written and not replicated."""
        talk = begun("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.answer("a", unmapped={"a": MOVED})
        talk.asks()
        talk.found("a", a=1)
        talk.asks()
        talk.fail("a", NotSentError("too late"))
        assert isinstance(talk.results()["a"], OutcomeUnknownError)

    @pytest.mark.safety
    @pytest.mark.parametrize("doubt", [True, False])
    def test_a_refusal_of_a_retry_does_not_say_that_nothing_was_done_at_the_first_try(self, doubt: bool) -> None:
        talk = begun("ab", mapping={"a": 1, "b": 1}, handler=ToyHandler(resend_after_loss=False, doubt=doubt))
        talk.answer("ab", unmapped={"a": MOVED, "b": MOVED})
        talk.asks()
        talk.answer("ab", completed={"a": broker(1)}, failed={"b": DENIED})
        talk.asks()
        talk.answer("a", failed={"a": DENIED})
        for error in talk.results().values():
            assert isinstance(error, OutcomeUnknownError) is doubt
            assert "refused" in str(error)

    def test_of_the_halves_only_what_was_asked_and_is_not_done_goes_again(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1))
        assert talk.asks() == [("ask", 1, "abc")]
        talk.answer("abc", completed={"c": 3}, failed=dict.fromkeys("abxc", SHARED))
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b")]

    def test_requests_are_cut_by_what_they_make_a_bucket_write(self) -> None:
        talk = Dialogue("aAbBcC", mapping=dict.fromkeys("aAbBcC", 1), handler=ToyHandler(budget=20))
        assert talk.asks() == [("ask", 1, "aAbB"), ("ask", 1, "cC")], "10 each: two of a bucket fit"

    def test_a_key_that_is_heavier_than_the_budget_goes_alone(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(budget=5))
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b"), ("ask", 1, "c")]

    def test_requests_are_of_equal_size_rather_than_with_a_small_one_at_the_end(self) -> None:
        talk = Dialogue("abcdefghijk", mapping=dict.fromkeys("abcdefghijk", 1))
        assert talk.asks() == [("ask", 1, "abcdef"), ("ask", 1, "ghijk")], "at most ten each"

    def test_requests_come_in_portions_and_those_of_idle_brokers_first(self) -> None:
        mapping = dict(zip("abcdef", [1, 1, 2, 2, 3, 3], strict=True))
        talk = Dialogue("abcdef", mapping=mapping, handler=SINGLE, limits=DriverLimits(series=1))
        portions = []
        while specs := talk.driver.poll(talk.now, 1):
            portions.append(["".join(spec.keys) for spec in specs])
        assert portions == [["a"], ["c"], ["e"], ["b"], ["d"], ["f"]]


SINGLE = ToyHandler(batch_size=1)


class TestFailures:
    def test_a_lost_connection_sends_all_the_brokers_keys_to_lookup(self) -> None:
        limits = DriverLimits(batches_in_flight=1)
        talk = Dialogue("ab", brokers=[2], mapping={"a": 1, "b": 1}, handler=SINGLE, limits=limits)
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
        talk = begun("ab", mapping={"a": 1, "b": 1})
        refused = AuthenticationFailedError("b1:9092", "bad password")
        talk.fail("ab", refused)
        assert talk.results() == {"a": refused, "b": refused}

    def test_a_version_without_common_ground_is_final(self) -> None:
        talk = begun("a", mapping={"a": 1})
        talk.fail("a", UnsupportedVersionError("too old"))
        assert isinstance(talk.results()["a"], UnsupportedVersionError)

    def test_a_deletion_that_never_left_is_tried_again(self) -> None:
        talk = begun("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.fail("a", LOST, sent=False)
        talk.sleep()
        assert talk.asks() == [("lookup", 1, "a")]

    def test_where_no_other_broker_may_be_asked_a_key_that_moved_fails(self) -> None:
        talk = Dialogue("ab", brokers=[1, 2], lookup=None, mapping={"a": 1, "b": 1})
        assert talk.asks() == [("ask", 1, "ab")]
        talk.answer("ab", completed={"a": 1}, unmapped={"b": MOVED})
        assert talk.asks() == []
        assert talk.results() == {"a": 1, "b": MOVED}
        assert talk.driver.done

    def test_a_handler_gives_up_on_a_broker_after_some_tries(self) -> None:
        talk = Dialogue("a", lookup=None, mapping={"a": 1}, handler=ToyHandler(tries=3))
        for _ in range(3):
            assert talk.asks() == [("ask", 1, "a")]
            talk.fail("a", LOST)
            talk.sleep()
        assert talk.results() == {"a": LOST}


class TestTime:
    def test_at_the_deadline_what_is_left_fails_and_names_its_broker(self) -> None:
        talk = begun("abc", brokers=[4], mapping={"a": 1, "b": 2})
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
        talk = begun("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.now = TIMEOUT
        talk.asks()
        assert isinstance(talk.results()["a"], OutcomeUnknownError)

    def test_a_change_that_was_parted_from_its_series_is_of_unknown_outcome_at_the_deadline(self) -> None:
        talk = begun("ab", mapping={"a": 1, "b": 1}, handler=ToyHandler(batch_size=1, resend_after_loss=False))
        (series,) = talk.in_flight_specs
        talk.driver.part(series, "b")
        talk.now = TIMEOUT
        talk.asks()
        assert [type(error) for error in talk.results().values()] == [OutcomeUnknownError] * 2

    def test_an_answer_after_the_deadline_changes_nothing(self) -> None:
        talk = begun("a", mapping={"a": 1})
        talk.now = TIMEOUT
        talk.asks()
        talk.results()
        talk.answer("a", completed={"a": 1})
        assert talk.results() == {}

    def test_a_throttled_broker_is_left_alone_for_as_long_as_it_says(self) -> None:
        limits = DriverLimits(batches_in_flight=1)
        talk = begun("ab", mapping={"a": 1, "b": 1}, handler=SINGLE, limits=limits)
        talk.answer("a", throttle=2.5, completed={"a": 1})
        assert talk.asks() == []
        assert talk.driver.wake_at(talk.now) == pytest.approx(2.5)
        talk.sleep()
        assert talk.asks() == [("ask", 1, "b")]

    def test_a_shorter_throttle_does_not_end_a_longer_one(self) -> None:
        """The broker is still silent on the first request's behalf: its deadline must not move back (KIP-219)."""
        talk = Dialogue(
            "abc", mapping=dict.fromkeys("abc", 1), handler=SINGLE, limits=DriverLimits(batches_in_flight=2, series=1)
        )
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b")]
        talk.answer("a", throttle=2.5, completed={"a": 1})
        talk.answer("b", throttle=0.1, completed={"b": 2})
        talk.now = 0.2
        assert talk.asks() == []
        talk.sleep()
        assert talk.now == pytest.approx(2.5)
        assert talk.asks() == [("ask", 1, "c")]
