"""The cluster of one kind, filled as far as the scenarios ask: groups to read stay, groups to delete come anew."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.bench.scenarios import BROKERS_IN_CLUSTER, PARTITIONS, TOPIC, BrokerKind
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

HEAP_MB = 1024  # what Kafka's own start script gives a broker
OFFSETS = {(TOPIC, partition): 1_000_000 + partition for partition in range(PARTITIONS)}
CHECKSUM_OF_GROUP = sum(OFFSETS.values())
_numbers = count()


class FilledCluster:
    """A running cluster and the files that name its groups.

    :param bootstrap: of the cluster as clients see it, delayed or not.
    :param folder: where the files with group ids go.
    """

    def __init__(self, kind: BrokerKind, bootstrap: str, folder: Path) -> None:
        self.kind = kind
        self.bootstrap = bootstrap
        self._folder = folder
        self._there = 0

    def groups_to_read(self, size: int) -> Path:
        """Return a file with ``size`` groups, made if they are not there yet."""
        if size > self._there:
            seed_groups(self.bootstrap, [_reader_id(number) for number in range(self._there, size)], OFFSETS)
            self._there = size
        return self._write(f"read-{size}", [_reader_id(number) for number in range(size)])

    def groups_to_delete(self, size: int, files: int) -> list[Path]:
        """Return so many files, each with ``size`` groups of its own, all new."""
        batches = [[f"delete-{next(_numbers):04d}-{number:05d}" for number in range(size)] for _ in range(files)]
        seed_groups(self.bootstrap, [group_id for batch in batches for group_id in batch], OFFSETS)
        return [self._write(batch[0], batch) for batch in batches]

    @property
    def readable(self) -> int:
        return self._there

    def _write(self, name: str, group_ids: Sequence[str]) -> Path:
        path = self._folder / f"{self.kind.label}-{name}.txt"
        path.write_text("\n".join(group_ids) + "\n")
        return path


def _reader_id(number: int) -> str:
    return f"team-{number % 97:02d}.service-{number:05d}"  # about as long and as alike as real ones


@contextmanager
def running(kind: BrokerKind, folder: Path) -> Iterator[FilledCluster]:
    """Start a cluster with an empty topic, fully optimising JVMs, and the delay of its kind."""
    folder.mkdir(parents=True, exist_ok=True)
    with KafkaCluster(
        version=kind.version,
        brokers=BROKERS_IN_CLUSTER,
        delay_ms=kind.round_trip_ms / 2,
        heap_mb=HEAP_MB,
        full_jit=True,
    ) as cluster:
        create_topics(cluster.bootstrap, {TOPIC: PARTITIONS})
        yield FilledCluster(kind, cluster.bootstrap, folder)
