"""The driver at its limits, as scripted dialogues: what is too much at once, lost, late or never answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    NotSentError,
    OutcomeUnknownError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits
from tests.unit.kafka.admin.engine.dialogue import SHARED, TIMEOUT, Dialogue, ToyHandler, broker

MOVED = KafkaGroupsError("NOT_COORDINATOR")
LOADING = KafkaGroupsError("COORDINATOR_LOAD_IN_PROGRESS")
REFUSED = KafkaGroupsError("refused")
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
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1))
        talk.asks()
        talk.answer("abc", completed={"a": 1, "b": 2}, failed={"c": SHARED})
        assert talk.results() == {"a": 1, "b": 2, "c": SHARED}

    def test_lookups_go_again_in_halves_too(self) -> None:
        talk = Dialogue("abc")
        talk.asks()
        talk.answer("abc", failed=dict.fromkeys("abc", SHARED))
        assert talk.asks() == [("lookup", 1, "a"), ("lookup", 1, "bc")]
        talk.answer("a", failed={"a": SHARED})
        talk.found("bc", b=1, c=2)
        assert talk.asks() == [("ask", 1, "b"), ("ask", 2, "c")]
        assert talk.results() == {"a": SHARED}

    def test_an_answer_that_cannot_be_read_is_asked_for_in_halves(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1))
        talk.asks()
        talk.fail("abc", GARBLED, sent=True)
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "bc")]
        talk.fail("a", GARBLED, sent=True)
        talk.answer("bc", completed={"b": 2, "c": 3})
        assert talk.results() == {"a": GARBLED, "b": 2, "c": 3}

    @pytest.mark.safety
    def test_a_change_whose_answer_cannot_be_read_is_not_sent_again(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.fail("abc", GARBLED, sent=True)
        assert talk.asks() == []
        assert {type(error) for error in talk.results().values()} == {OutcomeUnknownError}

    @pytest.mark.parametrize("sound", [False, True])
    def test_a_broker_that_fails_whatever_it_is_asked_is_not_asked_about_each_key(self, sound: bool) -> None:
        """Unless it has answered anything: then each of the keys may have trouble of its own."""
        keys = [chr(0x4E00 + n) for n in range(400)]
        limits = DriverLimits(alone=4, batches_in_flight=1)
        talk = Dialogue(
            ["a", *keys], mapping=dict.fromkeys(["a", *keys], 1), limits=limits, handler=ToyHandler(batch_size=401)
        )
        results: dict[str, Any] = {}
        asked, waiting = 0, talk.asks()
        while waiting:
            asked += 1
            ((_, _, asked_keys),) = waiting
            good = {"a": 1} if sound and "a" in asked_keys else {}
            talk.answer(asked_keys, completed=good, failed=dict.fromkeys(set(asked_keys) - set(good), SHARED))
            results |= talk.results()
            waiting = talk.asks()
        assert len(results) == 401
        assert set(results.values()) == ({1, SHARED} if sound else {SHARED})
        assert asked == 799 if sound else asked < 30

    def test_at_the_deadline_a_half_names_why_the_whole_failed(self) -> None:
        talk = Dialogue("ab", mapping=dict.fromkeys("ab", 1))
        talk.asks()
        talk.answer("ab", failed=dict.fromkeys("ab", SHARED))
        talk.asks()
        talk.now = TIMEOUT
        talk.asks()
        for error in talk.results().values():
            assert isinstance(error, DeadlineExceededError)
            assert "UNKNOWN_SERVER_ERROR" in str(error)

    def test_a_part_that_was_not_sent_any_more_may_have_happened_in_the_whole(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.answer("abc", completed={"c": 3}, failed={"a": SHARED, "b": SHARED})
        talk.asks()
        talk.fail("a", NotSentError("too late"))
        talk.answer("b", completed={"b": 2})
        results = talk.results()
        assert isinstance(results["a"], OutcomeUnknownError)

    def test_a_retry_that_is_not_sent_any_more_may_have_happened_at_the_first_try(self) -> None:
        """NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE also come when a deletion was written and not replicated."""
        talk = Dialogue("a", mapping={"a": 1}, handler=ToyHandler(resend_after_loss=False))
        talk.asks()
        talk.answer("a", unmapped={"a": MOVED})
        talk.asks()
        talk.found("a", a=1)
        talk.asks()
        talk.fail("a", NotSentError("too late"))
        assert isinstance(talk.results()["a"], OutcomeUnknownError)

    @pytest.mark.safety
    @pytest.mark.parametrize("doubt", [True, False])
    def test_a_refusal_of_a_retry_does_not_say_that_nothing_was_done_at_the_first_try(self, doubt: bool) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1}, handler=ToyHandler(resend_after_loss=False, doubt=doubt))
        talk.asks()
        talk.answer("ab", unmapped={"a": MOVED, "b": MOVED})
        talk.asks()
        talk.answer("ab", completed={"a": broker(1)}, failed={"b": REFUSED})
        talk.asks()
        talk.answer("a", failed={"a": REFUSED})
        for error in talk.results().values():
            assert isinstance(error, OutcomeUnknownError) is doubt
            assert "refused" in str(error)

    def test_of_the_halves_only_what_was_asked_and_is_not_done_goes_again(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1))
        assert talk.asks() == [("ask", 1, "abc")]
        talk.answer("abc", completed={"c": 3}, failed=dict.fromkeys("abxc", SHARED))
        assert talk.asks() == [("ask", 1, "a"), ("ask", 1, "b")]

    def test_requests_are_cut_by_what_they_make_a_bucket_write(self) -> None:
        talk = Dialogue("aAbBcC", mapping=dict.fromkeys("aAbBcC", 1), handler=ToyHandler(sizes=ToySizes(budget=20)))
        assert talk.asks() == [("ask", 1, "aAbB"), ("ask", 1, "cC")], "10 each: two of a bucket fit"

    def test_a_key_that_is_heavier_than_the_budget_goes_alone(self) -> None:
        talk = Dialogue("abc", mapping=dict.fromkeys("abc", 1), handler=ToyHandler(sizes=ToySizes(budget=5)))
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


@dataclass(frozen=True)
class ToySizes:
    budget: int

    def fit(self, keys: Sequence[str]) -> int:
        sizes = range(len(keys), 0, -1)
        return next((size for size in sizes if 10 * max(self._filled(keys[:size])) <= self.budget), 1)

    def _filled(self, keys: Sequence[str]) -> tuple[int, int]:
        upper = sum(key.isupper() for key in keys)
        return upper, len(keys) - upper


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

    def test_a_change_that_was_parted_from_its_series_is_of_unknown_outcome_at_the_deadline(self) -> None:
        talk = Dialogue("ab", mapping={"a": 1, "b": 1}, handler=ToyHandler(batch_size=1, resend_after_loss=False))
        talk.asks()
        (series,) = talk.in_flight_specs
        talk.driver.part(series, "b")
        talk.now = TIMEOUT
        talk.asks()
        assert [type(error) for error in talk.results().values()] == [OutcomeUnknownError] * 2

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
        limits = DriverLimits(batches_in_flight=1)
        talk = Dialogue("ab", mapping={"a": 1, "b": 1}, handler=SINGLE, limits=limits)
        talk.asks()
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
