"""The name of an owner is not blank, wherever it is: nobody could tell whom a message is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PolicyError
from tests.unit.judge.policy.files import policy_of


@pytest.mark.parametrize("blank", ["", " ", "\\t"])
def test_a_blank_owner_of_a_rule_is_refused(blank: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"line 2: rules\[0\].owner \(got .*the owner of the rule's groups"):
        policy_of(tmp_path, f'version: 1\nrules: [{{name: a, action: delete, owner: "{blank}"}}]\n')


@pytest.mark.parametrize("blank", ["", " ", "\\t"])
def test_a_blank_owner_in_the_owner_file_is_refused(blank: str, tmp_path: Path) -> None:
    policy = "version: 1\nowner_file: owners.yaml\nrules: [{name: a, action: delete}]\n"
    with pytest.raises(PolicyError, match=r"owners.yaml, line 2: web-\* \(got .*must be the name of an owner"):
        policy_of(tmp_path, policy, owners_yaml=f'pay-*: pay\nweb-*: "{blank}"\n')
