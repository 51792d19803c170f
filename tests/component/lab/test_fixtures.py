"""A shared cluster runs until the last test that needs it has ended, also where a test that fails is run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.lab.jars import REPOSITORY

CONFTEST = """
from tests.lab import fixtures

class Cluster:
    def __init__(self, *, version, **more):
        self.version, self.runs = version, True
    def __enter__(self):
        print("START", self.version)
        return self
    def __exit__(self, *_):
        self.stop()
    def stop(self):
        if self.runs:
            print("STOP", self.version)
        self.runs = False

fixtures.KafkaCluster = Cluster
pytest_plugins = ["tests.lab.fixtures"]
"""
TESTS = """
import pytest

tries = []

@pytest.mark.flaky(reruns=1)
def test_the_last_of_kafka44(kafka44):
    tries.append(1)
    print("TRY", len(tries), kafka44.runs)
    assert len(tries) > 1

def test_others_go_on(kafka41):
    print("OTHER", kafka41.runs)
"""


def test_a_test_that_is_run_again_has_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = [
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "pytest_rerunfailures",
        "-p",
        "no:cacheprovider",
        "-sq",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    words = [line.lstrip(".R") for line in done.stdout.splitlines()]
    assert [line for line in words if line.split(" ")[0] in {"START", "STOP", "TRY", "OTHER"}] == [
        "START 4.4.0",
        "TRY 1 True",
        "TRY 2 True",
        "STOP 4.4.0",
        "START 4.1.0",
        "OTHER True",
        "STOP 4.1.0",
    ]
