"""The properties file by which a job reaches Kafka, with the names of Kafka's Java client."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES
from airflow_kafka_groups.spark.requirements import PREFIX, PROTECTED, READ_ONLY
from airflow_kafka_groups.spark.session import SPARK_ERRORS, jvm_of

_SPARKS_OWN = {"group.id", "auto.offset.reset", "enable.auto.commit", "interceptor.classes"}
_SPARKS_OWN |= {"key.deserializer", "value.deserializer", "key.serializer", "value.serializer"}
_HIDDEN_NAMES = "(?i)secret|password|[.]key$"
_JAAS_OPTION = r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"'


@dataclass(frozen=True, slots=True)
class KafkaProperties:
    """The settings of a Kafka client. They stay out of ``repr``: they hold secrets.

    :param settings: names and values of Kafka's Java client.
    :param read_only: whether the connection must not change anything.
    :param protected: regular expressions of groups that the connection protects.
    """

    settings: dict[str, str] = field(repr=False)
    read_only: bool = False
    protected: tuple[str, ...] = ()

    def without_secrets(self, text: str) -> str:
        """Return a library's message with the secrets of these settings replaced."""
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
        """Return why the group's offsets must not be changed; ``None`` if they may be."""
        if self.read_only:
            return "the Kafka connection is read-only"
        spellings = {group_id, unicodedata.normalize("NFC", group_id)}
        # The connection's patterns are RE2's, whose \d and \w are ASCII, and whose (?i) is not.
        ways = [(pattern, spelling) for pattern in self.protected for spelling in spellings]
        if any(re.fullmatch(*way) or re.fullmatch(*way, re.ASCII) for way in ways):
            return f"the Kafka connection protects group {group_id!r}"
        return None


def load_properties(spark: SparkSession, path: str) -> KafkaProperties:
    """Read a properties file: a local one, or one shipped by ``--files``.

    :param path: the file's path, or its name if it was shipped.

    Raises ``ArgumentError`` naming the problem without showing a value.
    """
    java = jvm_of(spark, "reading Kafka properties").java
    given = Path(path.removeprefix("file://"))
    places = (given, Path(SparkFiles.get(given.name)), Path(given.name))
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ArgumentError(KAFKA_PROPERTIES, path, "there is no such file: give a local path, or ship it by --files")
    properties = java.util.Properties()
    try:
        properties.load(java.io.StringReader(found.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, *SPARK_ERRORS):  # the cause may quote a line of the file
        raise ArgumentError(KAFKA_PROPERTIES, path, "it cannot be read as a Java properties file") from None
    return _checked({str(name): str(properties.getProperty(name)) for name in properties.stringPropertyNames()}, path)


def _checked(settings: dict[str, str], path: str) -> KafkaProperties:
    own = {name: value for name, value in settings.items() if name.startswith(PREFIX)}
    kafka = {name: value for name, value in settings.items() if name not in own}
    if not kafka.get("bootstrap.servers", "").strip():
        raise ArgumentError(KAFKA_PROPERTIES, path, "it has no bootstrap.servers: add bootstrap.servers=broker1:9092")
    for name in kafka:
        if name in _SPARKS_OWN:
            raise ArgumentError(KAFKA_PROPERTIES, path, f"take {name} out: Spark sets it itself")
    if unknown := own.keys() - {READ_ONLY, PROTECTED}:
        raise ArgumentError(KAFKA_PROPERTIES, path, f"{sorted(unknown)[0]} is not known: take it out")
    if own.get(READ_ONLY, "false") not in ("true", "false"):
        raise ArgumentError(KAFKA_PROPERTIES, path, f"{READ_ONLY} must be true or false")
    return KafkaProperties(kafka, own.get(READ_ONLY) == "true", _patterns(own.get(PROTECTED, "[]"), path))


def _patterns(text: str, path: str) -> tuple[str, ...]:
    try:
        patterns = json.loads(text)
        for pattern in patterns:
            re.compile(pattern, re.ASCII)
    except (ValueError, TypeError, re.error):
        raise ArgumentError(KAFKA_PROPERTIES, path, f"{PROTECTED} must be a JSON list of regular expressions") from None
    return tuple(patterns)
