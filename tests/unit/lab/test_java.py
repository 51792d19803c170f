"""Java and Maven: found, missing, too old."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.errors import LabError
from tests.lab.machine.java import find_java, find_maven, parse_java_version
from tests.unit.lab.conftest import Install


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read_as_java_prints_them(said: str, version: int | None) -> None:
    assert parse_java_version(said) == version


def test_a_new_enough_java_is_found(install: Install) -> None:
    java = install("java", "echo 'openjdk version \"21.0.2\"' >&2")
    assert find_java() == str(java)


def test_no_java_says_what_to_install(install: Install) -> None:
    with pytest.raises(LabError, match=r"^No `java` on the PATH.*Install Java 17 or newer"):
        find_java()


def test_a_java_home_without_java_is_named(install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install("java", "echo 'openjdk version \"21\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(LabError, match="No `java` in JAVA_HOME"):
        find_java()


def test_an_old_java_is_refused_with_its_version(install: Install) -> None:
    install("java", "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(LabError, match=r"is Java 11, too old.*Install Java 17"):
        find_java()


def test_a_java_that_is_none_is_refused_with_its_words(install: Install) -> None:
    install("java", "echo 'The operation could not be completed.'")
    with pytest.raises(LabError, match=r"says nothing usable \(The operation could not be completed"):
        find_java()


def test_no_maven_says_what_to_install(install: Install) -> None:
    install("java", "echo 'openjdk version \"21\"' >&2")
    with pytest.raises(LabError, match=r"^No `mvn` on the PATH.*Install Maven"):
        find_maven()
