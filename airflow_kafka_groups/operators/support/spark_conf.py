"""Spark properties in a file instead of on spark-submit's command line, where every user of the machine can read them.

``--properties-file`` replaces ``spark-defaults.conf``, so its content comes first in the file; what a task sets counts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import check_url, read_mapping
from airflow_kafka_groups.hooks.connection.java_properties import render_properties, write_secret_file
from airflow_kafka_groups.storage.url_secrets import has_secret

READ_BY_AIRFLOW = frozenset(
    {
        "spark.kubernetes.namespace",
        "spark.kubernetes.submission.waitAppCompletion",
        "spark.yarn.submit.waitAppCompletion",
    }
)
"""Properties by which Airflow's hook decides, so it has to see them. None is secret."""

_SECRET = re.compile(
    r"secret|passw|passphrase|token|jaas|credential|(?:access|account|api|encryption|private|fixed).?key|azure\.sas\."
    r"|[_-](?:pwd\b|(?:pwd|pass)(?:[_-]?\d+)?$)|(?-i:\.(?:pwd\b|pass$))|(?<!security\.)authorization|connection_string"
    r"|(?-i:[A-Z](?<!OLD)(?<!BY)(?<!COM)(?:PWD|PASS)(?:_?\d+)?$)",  # DBPASS, and neither OLDPWD nor BYPASS
    re.I,
)
_NOT_ITSELF = re.compile(r"(?:provider|class|type|path|file|location|ur[il]|enabled|name|algorithm)s?$", re.I)
"""Names of what belongs to a secret, and is none."""
_PRIVATE_KEY = "PRIVATE KEY-----"
"""What every private key in PEM has, also within the JSON of a service account."""
_SWITCHES = frozenset({"true", "false"})
"""Values that are never secret: masked, they would be so wherever the log has them."""

_OF_JAVA = re.compile(r"-D([^=\s]+)=")
"""The name of a property among Java's options."""

_FIND_HOME = '. "$0"; printf %s "$SPARK_HOME"'
_REMEDY = (
    "cannot be kept off the command line, since spark-defaults.conf was not found: set SPARK_CONF_DIR or SPARK_HOME "
    "for the worker, or name a properties_file"
)


def read_spark_arguments(field: str, value: Any) -> Mapping[str, Any]:
    """Read the arguments of Spark's hook, and have Airflow mask the secrets in them: it knows other names only.

    The task's page in Airflow's UI shows them. Raises ``ConfigurationError`` for a URL with a password or a token in
    the others, which are on the command line.
    """
    arguments = dict(read_mapping(field, value))
    for argument, given in arguments.items():
        if argument not in ("conf", "env_vars"):
            for each in given if isinstance(given, list | tuple) else (given,):
                check_url(f"{field}, {argument}", each)
            continue
        arguments[argument] = {} if given is None else read_mapping(f"{field}, {argument}", given)
        for name, secret in arguments[argument].items():
            if isinstance(secret, str) and is_secret(name, secret):
                from airflow.sdk.log import mask_secret

                mask_secret(secret)
    return arguments


def is_secret(name: str, value: str) -> bool:
    """Return whether a property or variable is secret: by its name, or by a key, a URL or an option of Java in it."""
    if value.lower() in _SWITCHES:
        return False
    names = (name, *_OF_JAVA.findall(value))
    named = any(_SECRET.search(each) and not _NOT_ITSELF.search(each) for each in names)
    return named or _PRIVATE_KEY in value or ("://" in value and has_secret(value))


def hide_conf(
    conf: Mapping[str, Any] | None,
    properties_file: str | None,
    folder: Path,
    *,
    spark_binary: str | None = None,
    env_vars: Mapping[str, Any] | None = None,
    driver_env: str | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Write properties to a file in a private folder; return those that Airflow has to see, and the file.

    :param properties_file: the task's own ``--properties-file``, which Spark reads instead of its defaults.
    :param spark_binary: spark-submit. Default: the one on the path.
    :param env_vars: what the task adds to its environment.
    :param driver_env: what precedes the names of these variables as properties, where the driver gets them so.

    Where Spark's defaults are not found, properties stay on the command line. Raises ``ConfigurationError`` if one of
    them is secret by its name or value, or if the task's file cannot be read.
    """
    given = {name: str(value) for name, value in (conf or {}).items()}
    if driver_env is not None:
        given = {f"{driver_env}{name}": str(value) for name, value in (env_vars or {}).items()} | given
    seen = {name: value for name, value in given.items() if name in READ_BY_AIRFLOW}
    if seen == given:
        return given, properties_file
    if properties_file is not None:
        before = _read("properties_file", Path(properties_file))
    else:
        folder_of_defaults = _conf_folder(spark_binary, {**os.environ, **(env_vars or {})})
        if folder_of_defaults is None:
            others = {name: value for name, value in given.items() if value.lower() not in _SWITCHES}
            if secret := sorted(name for name in others if _SECRET.search(name) or is_secret(name, others[name])):
                raise ConfigurationError(f"conf, {secret[0]}", None, _REMEDY)
            return given, None
        defaults = folder_of_defaults / "spark-defaults.conf"
        before = _read("SPARK_CONF_DIR", defaults) if defaults.is_file() else ""
    hidden = {name: value for name, value in given.items() if name not in seen}
    # An empty line ends a last line that goes on with a backslash.
    path = write_secret_file(f"{before}\n\n{render_properties(hidden)}", folder / "spark.properties")
    return seen, str(path)


def _read(field: str, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(field, str(path), f"cannot be read: {type(exc).__name__}") from None


def _conf_folder(spark_binary: str | None, env: Mapping[str, str]) -> Path | None:
    """Return where Spark looks for its defaults, as its own scripts find it."""
    if env.get("SPARK_CONF_DIR"):
        return Path(env["SPARK_CONF_DIR"])
    home = env.get("SPARK_HOME") or _home_of(shutil.which(spark_binary or "spark-submit", path=env.get("PATH")), env)
    return Path(home, "conf") if home else None


def _home_of(program: str | None, env: Mapping[str, str]) -> str | None:
    script = Path(program or "").parent / "find-spark-home"
    bash = shutil.which("bash")
    if program is None or bash is None or not script.is_file():  # a site's own wrapper of spark-submit
        return None
    found = subprocess.run(  # noqa: S603 - what spark-submit itself is about to run
        [bash, "-c", _FIND_HOME, str(script)], env=dict(env), capture_output=True, text=True, timeout=60, check=False
    )
    home = found.stdout.strip()
    return home if home and Path(home).is_dir() else None
