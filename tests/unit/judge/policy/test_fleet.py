from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.policy_file import FleetCluster
from tests.unit.judge.policy.files import policy_of

RULES = "rules: [{name: a, action: delete}]\n"


def clusters(text: str, folder: Path) -> tuple[FleetCluster, ...]:
    return policy_of(folder, f"version: 1\n{text}\n{RULES}").clusters


def test_clusters_have_names_and_connections(tmp_path: Path) -> None:
    assert clusters("clusters:\n  prod: {connection: kafka_prod}\n  staging:\n", tmp_path) == (
        FleetCluster("prod", "kafka_prod"),
        FleetCluster("staging", "staging"),
    )
    assert clusters("", tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("clusters:\n  a: {connection: x}\n  b: {connection: x}", 4, "two histories. Remove one"),
        ("clusters:\n  a: {connection: b}\n  b:", 4, "two histories. Remove one"),
        ("clusters:\n  a: {connection: b}\n  c: {connection: 'b '}", 4, "(got 'b ') begins or ends with a space"),
        ("clusters:\n  a: {connection: ' '}", 3, "begins or ends with a space"),
        ("clusters:\n  ../a:", 3, "cannot be the name of a folder: use 1 to 100 letters"),
        ("clusters:\n  a:\n  A:", 4, "differs from 'a' in case only"),
        ("clusters:\n  a: {conection: x}", 3, "did you mean 'connection'?"),
        ("clusters:\n  a: {connection: ''}", 3, "the id of the cluster's connection"),
        ("clusters: {}", 2, "at least one"),
        ("clusters: [a]", 2, "by the names of their folders"),
    ],
)
def test_what_cannot_be_meant_names_line_field_and_remedy(text: str, line: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as error:
        clusters(text, tmp_path)
    assert f"policy.yaml, line {line}: clusters" in str(error.value)
    assert why in str(error.value)


def test_a_policy_that_names_its_clusters_is_for_no_other(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, f"version: 1\nclusters: {{prod: , staging: }}\n{RULES}")
    policy.require_cluster("prod")
    with pytest.raises(PolicyError, match="is for the clusters prod, staging, and not for 'test': add it to clusters"):
        policy.require_cluster("test")
    policy_of(tmp_path, f"version: 1\n{RULES}").require_cluster("test")
