"""The digest of a plan depends on its content, and on nothing else."""

from __future__ import annotations

import hashlib

import pytest

from airflow_kafka_groups.checks import is_digest
from airflow_kafka_groups.storage.formats import canonical_json, digest_of


def test_the_order_of_keys_and_the_digest_itself_do_not_count() -> None:
    one = digest_of({"b": 1, "a": [1.5, "é"]})
    assert one == digest_of({"a": [1.5, "é"], "b": 1, "digest": "whatever"})
    assert one != digest_of({"a": ["é", 1.5], "b": 1})
    assert is_digest(one)


def test_the_canonical_form_is_the_one_that_earlier_versions_wrote() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == b'{"a":[1.5,"\\u00e9"],"b":1}'
    assert digest_of({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()


@pytest.mark.parametrize("content", [{"a": float("nan")}, {"a": object()}])
def test_what_is_no_json_has_no_digest(content: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        digest_of(content)


@pytest.mark.parametrize("value", ["", "a" * 63, "A" * 64, "a" * 64 + "\n", None, 7])
def test_a_digest_is_64_hexadecimal_digits(value: object) -> None:
    assert not is_digest(value)
