import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    return scene.planned_once(admin, tmp_path, ["a", "b"])


def test_a_backup_is_written_and_summed_up_in_plain_json(planned: dict[str, Any], tmp_path: Path) -> None:
    backup = scene.back_up(tmp_path, planned)
    assert (backup["groups"], backup["rows"], backup["not_backed_up"], backup["reasons"]) == (2, 2, 0, {})
    assert Path(backup["path"]).is_file()
    assert json.loads(json.dumps(backup)) == backup


@pytest.mark.parametrize("wrong", [{"digest": ""}, {"digest": "None"}, {"plan_id": ""}, {"plan_id": "../x"}])
def test_bad_input_is_a_clear_error(planned: dict[str, Any], tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="plan_"):
        scene.back_up(tmp_path, {**planned, **wrong})
