"""Which groups may be touched is decided in one place; foreign groups are never among them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_kafka_groups
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_TYPES,
    JUDGED_TYPES,
    GroupType,
    has_eligible_kind,
    has_judged_kind,
)
from tests.sources import parsed

PACKAGE = Path(airflow_kafka_groups.__file__).parent
_TYPES = [kind.value for kind in GroupType]


@pytest.mark.parametrize("kind", GroupType)
@pytest.mark.parametrize("protocol_type", ["", "consumer", "connect", "sr", "share", "streams"])
def test_only_classic_and_consumer_groups_without_a_foreign_protocol_may_be_touched(
    kind: GroupType, protocol_type: str
) -> None:
    eligible = kind.value in ("classic", "consumer") and protocol_type in ("", "consumer")
    assert has_eligible_kind(kind.value, protocol_type) is eligible


def test_a_type_that_no_broker_reported_is_judged_and_never_touched() -> None:
    assert {"unknown"} == JUDGED_TYPES - ELIGIBLE_TYPES


@pytest.mark.parametrize(
    ("kind", "protocol_type", "judged"),
    [
        ("share", "share", True),
        ("share", "consumer", False),
        ("streams", "streams", True),
        ("streams", "", False),
        ("unknown", "streams", False),
        ("unknown", "consumer", True),
        ("classic", "connect", False),
        ("classic", "share", False),
        ("of-the-future", "consumer", False),
    ],
)
def test_share_and_streams_groups_are_judged_under_their_own_protocol(
    kind: str, protocol_type: str, judged: bool
) -> None:
    assert has_judged_kind(kind, protocol_type) is judged


@pytest.mark.parametrize(
    ("text", "kind"), [("Classic", "classic"), ("SHARE", "share"), ("new", "unknown"), (None, "unknown")]
)
def test_a_type_of_the_future_is_unknown(text: str | None, kind: str) -> None:
    assert GroupType.parse(text) == kind


def test_no_other_module_lists_group_types() -> None:
    """A second list of types is how a deleter begins to disagree with its planner."""
    lists = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "kafka" / "models.py"
        for line in _lists_of_types(parsed(path))
    ]
    assert lists == []


def _lists_of_types(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.Set | ast.List) and sum(map(_is_type, node.elts)) > 1:
            yield node.lineno


def _is_type(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        node = node.value if node.attr == "value" else node
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "GroupType"
    return isinstance(node, ast.Constant) and node.value in _TYPES
