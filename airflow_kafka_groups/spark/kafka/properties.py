"""How a job reaches Kafka: a properties file as every Kafka tool takes it, so that no secret is on a command line.

``KafkaGroupsHook.write_spark_properties()`` writes one from an Airflow connection; one made by hand does as well. Names
are those of Kafka's Java client. The contents go to Spark's source and to the driver's admin client, and nowhere else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.errors import SPARK_ERRORS, ArgumentError, JobError

OPTION = "--kafka-properties"
READ_ONLY = "kafka_groups.read_only"
PROTECTED = "kafka_groups.protected"
_OWN = "kafka_groups."
_SPARKS_OWN = frozenset(
    {
        "group.id",
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "enable.auto.commit",
        "interceptor.classes",
    }
)
_HIDDEN_OPTIONS = "(?i)url|secret|password|token|jaas|credential|[.]key|certificate"
_HIDDEN_NAMES = "(?i)secret|password|[.]key$"
_JAAS_OPTION = r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"'


@dataclass(frozen=True, slots=True)
class KafkaProperties:
    """Be the settings of a Kafka client; they stay out of ``repr``, since they hold secrets.

    :param settings: names and values as Kafka's Java client has them.
    :param read_only: the connection they came from must not change anything.
    :param protected: regular expressions of groups the connection protects.
    """

    settings: dict[str, str] = field(repr=False)
    read_only: bool = False
    protected: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        """Give the brokers' addresses."""
        return self.settings["bootstrap.servers"]

    def spark_options(self) -> dict[str, str]:
        """Give the settings as options of Spark's Kafka source."""
        return {f"kafka.{name}": value for name, value in self.settings.items()}

    def without_secrets(self, text: str) -> str:
        """Give a text in which no secret of these settings stands, whoever wrote it.

        :param text: what a library said.
        """
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> set[str]:
        found = {value for name, value in self.settings.items() if re.search(_HIDDEN_NAMES, name)}
        for option, value in re.findall(_JAAS_OPTION, self.settings.get("sasl.jaas.config", "")):
            if re.search(_HIDDEN_NAMES, option):
                found |= {value, re.sub(r"\\(.)", r"\1", value)}
        return {value for value in found if value.strip()}

    def why_unchangeable(self, group_id: str) -> str | None:
        """Say why the group's offsets must not be changed; ``None`` if they may be."""
        if self.read_only:
            return "the Kafka connection is read-only"
        if any(re.fullmatch(pattern, group_id) for pattern in self.protected):
            return f"the Kafka connection protects group {group_id!r}"
        return None


def load_properties(spark: SparkSession, path: str) -> KafkaProperties:
    """Read a properties file: a local one, or one that was shipped by ``--files``.

    :param spark: the session; Java's own reader is used.
    :param path: the file's path, or its name if it was shipped.

    Raises ``ArgumentError`` naming what is wrong, never showing a value.
    """
    found = next((place for place in _places(path) if place.is_file()), None)
    if found is None:
        raise ArgumentError(OPTION, path, "there is no such file: give a local path, or ship it by --files")
    properties = spark._jvm.java.util.Properties()  # type: ignore[union-attr]
    try:
        properties.load(spark._jvm.java.io.StringReader(found.read_text("utf-8")))  # type: ignore[union-attr]
    except (OSError, UnicodeDecodeError, *SPARK_ERRORS):  # the cause may quote a line of it
        raise ArgumentError(OPTION, path, "it cannot be read as a Java properties file") from None
    settings = {str(name): str(properties.getProperty(name)) for name in properties.stringPropertyNames()}
    return check_properties(settings, path)


def check_properties(settings: dict[str, str], path: str) -> KafkaProperties:
    """Refuse what Spark sets itself and what lacks a broker; take our own switches out.

    :param settings: what the file says.
    :param path: the file, for messages.
    """
    own = {name: value for name, value in settings.items() if name.startswith(_OWN)}
    kafka = {name: value for name, value in settings.items() if name not in own}
    if not kafka.get("bootstrap.servers", "").strip():
        raise ArgumentError(OPTION, path, "it has no bootstrap.servers: add bootstrap.servers=broker1:9092")
    for name in kafka:
        if name.startswith("kafka."):
            raise ArgumentError(OPTION, path, f"write {name.removeprefix('kafka.')}, without the prefix, for {name}")
        if name in _SPARKS_OWN:
            raise ArgumentError(OPTION, path, f"take {name} out: Spark sets it itself")
    if unknown := own.keys() - {READ_ONLY, PROTECTED}:
        raise ArgumentError(OPTION, path, f"{sorted(unknown)[0]} is not known: take it out")
    if own.get(READ_ONLY, "false") not in ("true", "false"):
        raise ArgumentError(OPTION, path, f"{READ_ONLY} must be true or false")
    return KafkaProperties(kafka, own.get(READ_ONLY) == "true", _patterns(own.get(PROTECTED, "[]"), path))


def hide_options(spark: SparkSession) -> None:
    """Make Spark redact the options of data sources in plans and logs, should it ever print them."""
    spark.conf.set("spark.sql.redaction.options.regex", _HIDDEN_OPTIONS)


def _patterns(text: str, path: str) -> tuple[str, ...]:
    try:
        patterns = json.loads(text)
        for pattern in patterns:
            re.compile(pattern)
    except (ValueError, TypeError, re.error):
        raise ArgumentError(OPTION, path, f"{PROTECTED} must be a JSON list of regular expressions") from None
    return tuple(patterns)


def _places(path: str) -> list[Path]:
    given = Path(path.removeprefix("file://"))
    try:
        return [given, Path(SparkFiles.get(given.name)), Path(given.name)]
    except (*SPARK_ERRORS, AssertionError, TypeError) as exc:  # pragma: no cover - a session is always there
        raise JobError(f"Spark does not say where shipped files are: {exc}") from exc
