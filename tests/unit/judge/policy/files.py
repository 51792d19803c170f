"""Policy files for tests."""

from pathlib import Path
from textwrap import dedent

from airflow_kafka_groups.judge.policy.policy_file import PolicyFile, load_policy


def write_policy(folder: Path, text: str, **beside: str) -> Path:
    """Write a policy and the files beside it; ``keep_txt`` is written as ``keep.txt``."""
    for name, content in beside.items():
        (folder / name.replace("_", ".")).write_text(dedent(content))
    path = folder / "policy.yaml"
    path.write_text(dedent(text))
    return path


def policy_of(folder: Path, text: str, **beside: str) -> PolicyFile:
    return load_policy(write_policy(folder, text, **beside))
