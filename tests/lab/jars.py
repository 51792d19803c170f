"""Fetch the jars of one Kafka version with Maven, once: ``<lab dir>/<version>/libs``.

``python -m tests.lab.jars`` fetches those of all known versions. Standard library only.
"""

import os
import re
import sys
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.machine import maven
from tests.lab.machine.maven import Artifact, Download

REPOSITORY = Path(__file__).resolve().parents[2]
KNOWN_VERSIONS = ("4.4.0", "4.1.0", "3.9.2", "2.8.2")
STREAMS_VERSIONS = ("4.4.0", "4.1.0")
"""Those with streams groups (KIP-1071)."""


def lab_dir() -> Path:
    """Return the folder of the jars: ``AKG_LAB_DIR``, or ``build/kafka`` of this repository."""
    chosen = os.environ.get("AKG_LAB_DIR")
    return Path(chosen).expanduser().resolve() if chosen else REPOSITORY / "build" / "kafka"


def parse_version(version: str) -> tuple[int, int, int]:
    """Split ``4.1.0`` into numbers; raises LabError when it is no released version's spelling."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
    if not found:
        raise LabError(f"{version!r} is not a Kafka version; write it like {', '.join(KNOWN_VERSIONS)}.")
    return int(found[1]), int(found[2]), int(found[3])


def render_pom(version: str) -> str:
    """Write the pom that asks for the broker, its command line tools, and a logger that writes to stderr."""
    wanted = [Artifact("org.apache.kafka", "kafka_2.13", version), Artifact("org.slf4j", "slf4j-simple", "1.7.36")]
    if parse_version(version) >= (3, 9, 0):  # older ones have their tools in the broker's own jar
        # They drag in Kafka Connect and two web servers, which none of the tools used here needs.
        wanted.append(Artifact("org.apache.kafka", "kafka-tools", version, alone=True))
    return maven.render_pom(wanted)


def fetch(version: str) -> Path:
    """Return the folder with the jars of ``version``, fetching them first when they are not all there."""
    home = lab_dir() / version
    pom = render_pom(version)
    wanted = Download(what=f"Kafka {version}", pom=pom, libs=home / "libs", home=home, proof="kafka_2.13-*.jar")
    return wanted.fetch()


def fetch_streams(version: str) -> Path:
    """Return the folder with Kafka Streams of ``version``, alone: state stores in memory need no other jar."""
    home = lab_dir() / version / "streams"
    pom = maven.render_pom([Artifact("org.apache.kafka", "kafka-streams", version, alone=True)])
    what = f"Kafka Streams {version}"
    return Download(what=what, pom=pom, libs=home / "libs", home=home, proof="kafka-streams-*.jar").fetch()


if __name__ == "__main__":
    try:
        for known in KNOWN_VERSIONS:
            print(fetch(known))
        for known in STREAMS_VERSIONS:
            print(fetch_streams(known))
    except LabError as exc:
        sys.exit(str(exc))
