"""Copying the DAG files: nobody's changes are overwritten."""

import importlib.util
from pathlib import Path

import pytest

from airflow_kafka_groups import example_dags
from airflow_kafka_groups.cli.main import main

ROOT = Path(__file__).parents[4]
FILES = sorted(path.name for path in (ROOT / "dags").glob("*.py"))


def test_a_checkout_has_its_dags_in_the_package() -> None:
    assert example_dags.folder() == ROOT / "dags"
    assert [path.name for path in example_dags.dag_files()] == FILES
    assert importlib.util.find_spec("airflow_kafka_groups.example_dags.lag_alert") is not None


def test_the_folder_without_files_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(example_dags, "_CHECKOUT", tmp_path)
    with pytest.raises(FileNotFoundError, match="install airflow-kafka-groups again"):
        example_dags.folder()


def test_only_the_chosen_dag_is_copied(tmp_path: Path) -> None:
    assert main(["copy-dags", str(tmp_path), "--only", "lag_alert"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lag_alert.py"]


def test_a_second_copy_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "dags"
    assert main(["copy-dags", str(folder)]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: (ROOT / "dags" / name).read_bytes() for name in FILES
    }
    assert capsys.readouterr().out.count("copied") == len(FILES)
    assert main(["copy-dags", str(folder)]) == 0
    assert capsys.readouterr().out.count("unchanged") == len(FILES)


def test_a_file_that_differs_is_kept_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "lag_alert.py"
    mine.write_text("# mine\n")
    assert main(["copy-dags", str(tmp_path), "-o", "csv"]) == 3
    printed = capsys.readouterr()
    assert f"lag_alert,kept,{mine}" in printed.out
    assert "--force" in printed.err
    assert mine.read_text() == "# mine\n"
    assert main(["copy-dags", str(tmp_path), "-o", "csv", "--force"]) == 0
    assert f"lag_alert,overwritten,{mine}" in capsys.readouterr().out
    assert mine.read_bytes() == (ROOT / "dags" / "lag_alert.py").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "named"), [(["--only", "no_such_dag"], "no_such_dag"), ([], "is not a folder")], ids=["dag", "file"]
)
def test_bad_usage_copies_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    target = tmp_path / "target"
    if not arguments:
        target.write_text("a file")
    assert main(["copy-dags", str(target), *arguments]) == 2
    assert named in capsys.readouterr().err
    assert not target.is_dir()
