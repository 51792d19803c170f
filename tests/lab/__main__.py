"""Run a cluster until Ctrl-C or SIGTERM: ``python -m tests.lab up``. Errors are one plain sentence, and exit code 2."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.jars import KNOWN_VERSIONS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Real Kafka brokers on loopback ports.")
    parser.add_argument("command", choices=("up",))
    parser.add_argument("--version", default="4.1.0", help=f"tried out: {', '.join(KNOWN_VERSIONS)}")
    parser.add_argument("--brokers", type=int, default=3)
    return parser


def _end(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)
    started = time.monotonic()
    try:
        with KafkaCluster(version=arguments.version, brokers=arguments.brokers) as cluster:
            took = time.monotonic() - started
            print(f"Kafka {cluster.version} with {cluster.size} brokers is up after {took:.1f} s; Ctrl-C ends it.")
            print(f"bootstrap={cluster.bootstrap}", flush=True)
            while not (dead := set(cluster.brokers) - set(cluster.running)):
                time.sleep(1)
            raise LabError(f"Broker {min(dead)} has ended by itself. It logged:\n{cluster.log_tail(min(dead))}")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 0
    except LabError as exc:
        print(exc, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
