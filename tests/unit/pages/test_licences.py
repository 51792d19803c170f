"""The licences of dependencies: how they are found, and that none binds the users of this package."""

from email.message import Message
from importlib.metadata import Distribution
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.reference.licences import EXTRA, PACKAGE, installed, licence_of


def package(**fields: Any) -> Distribution:
    metadata = Message()
    for name, value in {"Name": "thing", **fields}.items():
        for each in value if isinstance(value, list) else [value]:
            metadata[name.replace("_", "-")] = each
    return cast("Distribution", SimpleNamespace(metadata=metadata))


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "other"}, "MIT OR Apache-2.0"),
        ({"License": "Apache Software License"}, "Apache-2.0"),
        ({"License": "the whole text " * 20, "Classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
        ({"License": "UNKNOWN", "Classifier": ["License :: OSI Approved :: BSD License", "Topic :: x"]}, "BSD"),
    ],
)
def test_a_licence_is_found_where_packages_declare_it(fields: dict[str, Any], licence: str) -> None:
    assert licence_of(package(**fields)) == licence


def test_a_package_without_a_licence_is_an_error() -> None:
    with pytest.raises(ValueError, match="thing declares no licence"):
        licence_of(package(Classifier=["Topic :: x"]))


def test_dependencies_of_dependencies_are_found_and_none_is_under_the_gpl() -> None:
    found = installed(PACKAGE, EXTRA)
    assert {"apache-airflow-core", "sqlalchemy", "kio", "confluent-kafka"} <= found.keys()
    assert PACKAGE not in found
    strict = {name: licence_of(this) for name, this in found.items() if licence_of(this).startswith(("GPL", "AGPL"))}
    assert strict == {}
