"""The command line on the cluster in memory, as a function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from tests.unit.operators.scene import CLUSTER

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs a command; it returns the exit code, what stdout has as JSON, and stderr."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()  # what operators logged
        code = main([*arguments, "--conn-id", "kafka_groups_default", "--output", "json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return run


@pytest.fixture
def stored(cli: Cli, tmp_path: Path) -> Cli:
    """Return that function with the storage of the other tests of clean-ups."""
    return lambda *arguments: cli(*arguments, "--storage-path", str(tmp_path), "--cluster", CLUSTER)
