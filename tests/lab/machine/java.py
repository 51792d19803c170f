"""Find Java and Maven, and say what to install when they are missing or too old."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.lab.errors import LabError

MIN_JAVA = 17
INSTALL_JAVA = (
    f"Install Java {MIN_JAVA} or newer (Debian and Ubuntu: `apt install openjdk-17-jre-headless`) or set JAVA_HOME."
)
INSTALL_MAVEN = "Install Maven (Debian and Ubuntu: `apt install maven`)."


def parse_java_version(text: str) -> int | None:
    """Read the major version out of what ``java -version`` prints; ``1.8.0_392`` counts as 8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def find_java() -> str:
    """Return the path of a ``java`` that can run the brokers; raises LabError when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise LabError(f"No `java` {where}, and Kafka brokers need it. {INSTALL_JAVA}")
    _check_java(java)
    return java


@functools.cache
def _check_java(java: str) -> None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"`{java} -version` does not run ({exc}). {INSTALL_JAVA}") from exc
    version = parse_java_version(done.stderr + done.stdout)
    if version is None:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise LabError(f"`{java} -version` says nothing usable ({' '.join(said[:1])}). {INSTALL_JAVA}")
    if version < MIN_JAVA:
        raise LabError(f"{java} is Java {version}, too old for Kafka brokers. {INSTALL_JAVA}")


def find_maven() -> str:
    """Return the path of ``mvn``, which fetches the broker jars; raises LabError when there is none."""
    find_java()  # Maven runs on it, and its own complaint about that is harder to read
    maven = shutil.which("mvn")
    if maven is None:
        raise LabError(f"No `mvn` on the PATH, and it fetches the broker jars. {INSTALL_MAVEN}")
    return maven
