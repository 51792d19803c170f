"""The page about installing: the megabytes that it promises are those of the packages here."""

import re
from importlib.metadata import distribution

from tests.pages import DOCS

BASE = ("apache-airflow-providers-apache-kafka", "kio", "aiokafka", "confluent-kafka", "google-re2", "numpy", "pyarrow")
SPARK = ("apache-airflow-providers-apache-spark", "pyspark", "pyspark-client", "pandas", "py4j", "grpcio")


def megabytes(names: tuple[str, ...]) -> float:
    found = [path.locate() for name in names for path in distribution(name).files or ()]
    return sum(path.stat().st_size for path in found if path.exists()) / 1e6  # type: ignore[attr-defined]


def test_an_installation_brings_what_the_page_says() -> None:
    page = " ".join((DOCS / "start" / "install.md").read_text().split())
    said = [int(number) for number in re.findall(r"(\d+) MB", page)]
    for promised, names in zip(said, (BASE, SPARK), strict=True):
        assert abs(megabytes(names) / promised - 1) < 0.15
