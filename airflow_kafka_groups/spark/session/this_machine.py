"""What a Spark session would be on this machine, from how the job was submitted, without starting one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_MASTER = re.compile(r"local(?:\[(?P<cores>\*|[1-9]\d*)(?:,\s*\d+)?\])?")
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_SUBMITTED_WITH = "PYSPARK_GATEWAY_SECRET"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_JVM_OPTIONS = (_ARGUMENTS, "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_PROPERTY = "-Dspark."  # how a JVM's option for a property of Spark's begins
_CONFIGURATION = ("spark-defaults.conf", "spark-env.sh", "java-opts")
"""Files in which a site sets what only a JVM reads."""

_LISTENERS = ("spark.extraListeners", "spark.plugins", "spark.sql.queryExecutionListeners")
"""Properties by which somebody follows each application, such as one who records its lineage."""

_MASTER_PROPERTY = "spark.master"
_EVENT_LOG = "spark.eventLog.enabled"
_STORAGE = "fs.defaultFS"
_CLASSES = "spark.driver.extraClassPath"
_OTHER_PATHS = (f"spark.hadoop.{_STORAGE}", "spark.hadoop.fs.default.name", _CLASSES)
_CLASS_PATHS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_HADOOP_FILES = "*-site.xml"
"""What may make a path without a scheme that of another storage: properties, variables, files."""

_READ = (_MASTER_PROPERTY, _EVENT_LOG, *_LISTENERS, *_OTHER_PATHS)


class ThisMachine(NamedTuple):
    """A session that would run on this machine alone.

    :param cores: how many of its cores to use; ``None`` for all.
    :param has_paths: whether a path without a scheme is surely on a local disk.
    """

    cores: int | None
    has_paths: bool


def this_machine(environment: Mapping[str, str] = os.environ) -> ThisMachine | None:
    """Return what the session would be; ``None`` if it has to start: for a cluster, or if only a JVM knows.

    :param environment: the variables of this process.
    """
    properties = _properties(environment)
    if properties is None or any(environment.get(name) for name in _CONNECT):
        return None
    master = _MASTER.fullmatch(properties.get(_MASTER_PROPERTY, "local[*]"))
    if master is None or properties.get(_EVENT_LOG, "").strip().lower() == "true":
        return None
    if any(properties.get(name) for name in _LISTENERS):
        return None
    cores = master["cores"] or "1"
    elsewhere = any(properties.get(name) for name in _OTHER_PATHS)
    elsewhere = elsewhere or any(environment.get(name) for name in _CLASS_PATHS)
    elsewhere = elsewhere or any(any(folder.glob(_HADOOP_FILES)) for folder in _folders(environment))
    return ThisMachine(None if cores == "*" else int(cores), not elsewhere)


def _properties(environment: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the properties that the job was submitted with, ``None`` if only a JVM knows them."""
    if environment.get(_SUBMITTED):  # by spark-submit: its JVM is there, and has read everything
        return _of_jvm(environment)
    files = (folder / name for folder in _folders(environment) for name in _CONFIGURATION)
    if environment.get("MASTER") or any(file.exists() for file in files):
        return None
    if any(_PROPERTY in environment.get(name, "") for name in _JVM_OPTIONS):
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--master")
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file")
    parser.add_argument("--driver-class-path", "--jars", dest="classes")
    try:
        given, _ = parser.parse_known_args(shlex.split(environment.get(_ARGUMENTS, "")))
    except (ValueError, argparse.ArgumentError):
        return None
    if given.properties_file:
        return None
    properties = dict(each.partition("=")[::2] for each in given.conf)
    named = {_MASTER_PROPERTY: given.master, _CLASSES: given.classes}
    return properties | {name: value for name, value in named.items() if value}


def _of_jvm(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties that spark-submit's JVM has."""
    # Not by pyspark's SparkConf: to import pyspark takes half a second.
    from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

    where = GatewayParameters(port=int(environment[_SUBMITTED]), auth_token=environment[_SUBMITTED_WITH])
    with closing(JavaGateway(gateway_parameters=where)) as gateway:
        spark = gateway.jvm.org.apache.spark.SparkConf()
        # Whatever says so: a variable of the JVM's, a file on its class path, or in a jar.
        storage = gateway.jvm.org.apache.hadoop.conf.Configuration().get(_STORAGE).removeprefix("file:///")
        return {f"spark.hadoop.{_STORAGE}": storage} | {name: spark.get(name) for name in _READ if spark.contains(name)}


def _folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Spark looks for its configuration."""
    if configured := environment.get("SPARK_CONF_DIR"):
        return [Path(configured)]
    if home := environment.get("SPARK_HOME"):
        return [Path(home, "conf")]
    found = find_spec("pyspark")
    homes = (found and found.submodule_search_locations) or ()
    # The last one: pyspark is that of a Spark on the path of Python's modules.
    return [Path(home, inner, "conf") for home in homes for inner in ("", "spark-distribution", "../..")]
