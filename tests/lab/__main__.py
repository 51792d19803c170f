"""The lab's command line: ``python -m tests.lab up|fetch``. Errors are one plain sentence, and exit code 2."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.jars import KNOWN_VERSIONS, fetch

DEFAULT_VERSION = "4.1.0"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Real Kafka brokers on loopback ports.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="run a cluster until Ctrl-C or SIGTERM")
    up.add_argument("--version", default=DEFAULT_VERSION, help=f"tried out: {', '.join(KNOWN_VERSIONS)}")
    up.add_argument("--brokers", type=int, default=3)
    up.add_argument("--delay-ms", type=float, default=0, help="delay clients this much each way")
    up.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a broker property; repeatable")
    up.add_argument("--keep", action="store_true", help="leave data and logs where they are")
    get = commands.add_parser("fetch", help="fetch the jars, so that a later start needs no network")
    get.add_argument("--version", action="append", help=f"repeatable; default {DEFAULT_VERSION}")
    return parser


def parse_config(entries: Sequence[str]) -> dict[str, str]:
    """Split ``KEY=VALUE`` arguments; raises LabError for one without an equals sign."""
    pairs = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise LabError(f"--config {entry!r} is not of the form KEY=VALUE.")
        pairs[key.strip()] = value.strip()
    return pairs


def _up(arguments: argparse.Namespace) -> None:
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            return
        stopped.set()
        raise KeyboardInterrupt  # out of a start that is still under way, too

    signal.signal(signal.SIGTERM, stop)
    started = time.monotonic()
    cluster = KafkaCluster(
        version=arguments.version,
        brokers=arguments.brokers,
        config=parse_config(arguments.config),
        delay_ms=arguments.delay_ms,
        keep=arguments.keep,
    )
    try:
        with cluster:
            took = time.monotonic() - started
            print(f"Kafka {cluster.version} with {cluster.size} brokers is up after {took:.1f} s; Ctrl-C ends it.")
            if arguments.keep:
                print(f"folder={cluster.folder}")
            print(f"bootstrap={cluster.bootstrap}", flush=True)
            while not stopped.wait(1):
                _report_dead(cluster)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)


def _report_dead(cluster: KafkaCluster) -> None:
    if dead := set(cluster.brokers) - set(cluster.running):
        node_id = min(dead)
        raise LabError(f"Broker {node_id} has ended by itself. It logged:\n{cluster.log_tail(node_id)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "up":
            _up(arguments)
        else:
            for version in arguments.version or [DEFAULT_VERSION]:
                print(fetch(version))
    except LabError as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
