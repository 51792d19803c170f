"""Two clusters beside that of the demo, for the DAGs of a fleet: a small one, and one that is down.

The policy of the demo is that of all three. Its first rule is a ready-made one, for groups whose owners need no notice.
"""

from pathlib import Path
from typing import Any, Self

from tests.demo.policy import IDLE_SECONDS
from tests.demo.workload import FETCH_WAIT_MS
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.ports import HOST
from tests.lab.machine.service import Service
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

DAGS = ("snapshot_fleet", "cleanup_fleet")
STAGING, DOWN = "staging", "old-dc"
CONNECTIONS = {"demo": "kafka_groups_default", STAGING: "kafka_staging", DOWN: "kafka_old_dc"}
LIVE = "orders-api"
PREVIEWS = frozenset(f"preview-pr-{number}" for number in range(101, 113))
PROTECTED = frozenset(f"connect-{name}-sink" for name in ("jdbc", "s3", "elastic", "mongo", "redis"))
_RULE = f"\nrules:\n  - use: preview-environments\n    idle: {IDLE_SECONDS}s\n\n"
_TOPIC = "orders"


def _line(cluster: str) -> str:
    return f"  {cluster}: {{connection: {CONNECTIONS[cluster]}}}\n"


def name_clusters(policy: Path) -> None:
    """Let a policy file be that of all three clusters."""
    text = policy.read_text()
    if text.count("\nversion: 1\n") != 1 or text.count("\nrules:\n") != 1:
        raise ValueError(f"{policy} must have one version and one list of rules")
    clusters = "".join(map(_line, CONNECTIONS))
    text = text.replace("\nversion: 1\n", f"\nversion: 1\n\nclusters:\n{clusters}")
    policy.write_text(text.replace("\nrules:\n", _RULE))


def without_demo(policy: Path) -> Path:
    """Write a policy file without the demo's cluster, which others clean up, beside one with it; return its path."""
    path = policy.with_name("two-clusters.yaml")
    path.write_text(policy.read_text().replace(_line("demo"), ""))
    return path


def with_quick_retries(folder: Path) -> None:
    """Let the fleet's DAGs try once more, and soon: a cluster that is down here stays down, and nobody waits for it."""
    for name in DAGS:
        path = folder / f"{name}.py"
        text = path.read_text().replace('"retries": 2', '"retries": 1')
        path.write_text(text.replace('"retry_delay": timedelta(minutes=1)', '"retry_delay": timedelta(seconds=1)'))


class Staging(Service):
    """Run the small cluster until ``stop()`` or the end of the ``with`` block: twelve dead groups, and six in use.

    :param version: the version of its only broker.
    """

    def __init__(self, version: str) -> None:
        self._cluster = KafkaCluster(version=version, brokers=1, heap_mb=256)
        self._consumer: LiveConsumer | None = None

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> Self:
        """Start it, and return when its groups are there."""
        self._cluster.start()
        self._fill()
        return self

    def stop(self) -> None:
        """Stop it. May be called twice."""
        if self._consumer is not None:
            self._consumer.stop()
        self._consumer = None
        self._cluster.stop()

    @property
    def connections(self) -> dict[str, dict[str, Any]]:
        """Return the Airflow connections of this cluster and of the one that is down, by their ids."""
        of_type = {"conn_type": "kafka_groups"}
        return {
            CONNECTIONS[STAGING]: {**of_type, "host": self.bootstrap},
            CONNECTIONS[DOWN]: {**of_type, "host": f"{HOST}:1", "extra": '{"api_timeout_seconds": 5}'},
        }

    def _fill(self) -> None:
        create_topics(self.bootstrap, {_TOPIC: 2})
        produce(self.bootstrap, {(_TOPIC, 0): 100, (_TOPIC, 1): 100})
        seed_groups(self.bootstrap, [*PREVIEWS, *PROTECTED], {(_TOPIC, 0): 50, (_TOPIC, 1): 20})
        self._consumer = LiveConsumer(self.bootstrap, LIVE, [_TOPIC], fetch_wait_ms=FETCH_WAIT_MS)
        self._consumer.start()
        self._consumer.wait_assigned()
