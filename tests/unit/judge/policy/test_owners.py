"""Who owns a group, and that an owner's name is never blank."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS, OwnerRules
from tests.unit.judge.policy.files import policy_of

RULES = OwnerRules(
    mapping=[("pay.*", "payments"), ("pay.legacy*", "never"), ("re:x-(a|b)+", "regex"), ("*-etl", "data")],
    naming="{owner}.*",
    contacts={"payments": "pay@example.com"},
    default_contact="all@example.com",
)


@pytest.mark.parametrize(
    ("group_id", "client", "found"),
    [
        ("pay.a", None, "payments"),
        ("pay.legacy", None, "payments"),
        ("x-ab", None, "regex"),
        ("nightly-etl", None, "data"),
        ("data-platform.app.x", "c1", "data-platform"),
        (".x", None, None),
        ("plain", None, None),
        ("plain", "consumer-app-1", "consumer-app-1"),
        ("plain", "", None),
        ("", None, None),
    ],
)
def test_mapping_then_name_then_last_client(group_id: str, client: str | None, found: str | None) -> None:
    assert RULES.owner_of(group_id, client) == found


def test_contacts() -> None:
    assert [RULES.contact_of(name) for name in ("payments", "data", None)] == [
        "pay@example.com", "all@example.com", "all@example.com",
    ]  # fmt: skip
    assert NO_OWNERS.contact_of("payments") is None


@pytest.mark.parametrize(
    ("naming", "group_id", "owner"),
    [
        ("svc-{owner}", "svc-a-b", "a-b"),
        ("*/{owner}/*", "eu/team/app/x", "team"),
        ("{owner}-*", "team-app-x", "team"),
        ("{owner}*", "team", "t"),
    ],
)
def test_a_naming_rule_ends_an_owner_at_its_next_character(naming: str, group_id: str, owner: str) -> None:
    assert OwnerRules(naming=naming).owner_of(group_id) == owner


@pytest.mark.parametrize("naming", ["team.*", "{owner}.{owner}", ""])
def test_a_naming_rule_has_one_place_for_the_owner(naming: str) -> None:
    with pytest.raises(ConfigurationError, match="owner"):
        OwnerRules(naming=naming)


@pytest.mark.safety
def test_no_glob_gives_the_empty_id_an_owner() -> None:
    """A rule that deletes the groups of an owner is not about a group that no list visibly shows."""
    assert OwnerRules(mapping=[("*", "all")]).owner_of("") is None
    assert OwnerRules(mapping=[("re:x?", "regex")]).owner_of("") == "regex"


def test_a_naming_rule_is_a_glob() -> None:
    """A regular expression was taken for the letters that it has: it found nobody, and nobody was told."""
    with pytest.raises(ConfigurationError, match=r"owner_from_id .*re:\{owner\}.*must be a glob"):
        OwnerRules(naming="re:{owner}-.*")


@pytest.mark.parametrize("blank", ["", " ", "\\t"])
def test_a_blank_owner_of_a_rule_is_refused(blank: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"line 2: rules\[0\].owner \(got .*the owner of the rule's groups"):
        policy_of(tmp_path, f'version: 1\nrules: [{{name: a, action: delete, owner: "{blank}"}}]\n')


@pytest.mark.parametrize("blank", ["", " ", "\\t"])
def test_a_blank_owner_in_the_owner_file_is_refused(blank: str, tmp_path: Path) -> None:
    policy = "version: 1\nowner_file: owners.yaml\nrules: [{name: a, action: delete}]\n"
    with pytest.raises(PolicyError, match=r"owners.yaml, line 2: web-\* \(got .*must be the name of an owner"):
        policy_of(tmp_path, policy, owners_yaml=f'pay-*: pay\nweb-*: "{blank}"\n')
