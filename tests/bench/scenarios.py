"""What is measured: operation, broker and number of groups, and the peers' limits. Data, and the rules for skipping."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

PARTITIONS = 20
TOPIC = "bench"
BROKERS_IN_CLUSTER = 3

OURS = "ours"
PEERS = (OURS, "franz_go", "java", "kafka_python", "confluent")
TITLES = {
    OURS: "this package",
    "franz_go": "franz-go kadm",
    "java": "Java Admin",
    "kafka_python": "kafka-python",
    "confluent": "confluent-kafka",
}


@dataclass(frozen=True, slots=True)
class BrokerKind:
    """A kind of cluster: which Kafka, and how far away."""

    label: str
    version: str
    round_trip_ms: int = 0


BROKER_KINDS = {
    kind.label: kind
    for kind in (
        BrokerKind("4x", "4.1.0"),
        BrokerKind("4x_20ms", "4.1.0", 20),
        BrokerKind("28", "2.8.2"),
        BrokerKind("28_20ms", "2.8.2", 20),
    )
}


_FEW_AND_FAR = ("28_20ms", 2_000)
"""Where there is an aim and first calls vary: they are measured more often, as first deletions are."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One comparison.

    :param colds: fresh processes of each peer, whose first call is a cold one.
    :param warms: further calls of each peer in the last of these processes.
    :param budget_s: begin no further round after this time.
    :param peers: who takes part.
    """

    operation: str
    broker: str
    groups: int
    colds: int = 3
    warms: int = 7
    budget_s: float = 90.0
    peers: tuple[str, ...] = PEERS

    @property
    def name(self) -> str:
        """The name ``<operation>.<broker>.<groups>``, the name in files and on the command line."""
        return f"{self.operation}.{self.broker}.{self.groups}"

    @property
    def offsets(self) -> int:
        """The number of offsets in a correct response."""
        return self.groups * PARTITIONS if self.operation == "list_offsets" else 0


def _reads(operation: str, broker: str, sizes: Sequence[int]) -> list[Scenario]:
    return [
        Scenario(
            operation,
            broker,
            size,
            colds=2 if size > 10_000 else 5 if (broker, size) == _FEW_AND_FAR else 3,
            warms=4 if size > 10_000 else 7,
            budget_s=150.0 if size > 10_000 else 90.0,
        )
        for size in sizes
    ]


def _deletes(broker: str, sizes: Sequence[int]) -> list[Scenario]:
    """Every run needs new groups, so there are fewer; first calls vary most, so there are more where an aim is."""
    return [
        Scenario(
            "delete",
            broker,
            size,
            colds=13 if size == 10_000 else 1,
            warms=1 if size > 10_000 else 3,
            budget_s=180.0,
            peers=(OURS, "franz_go") if size > 10_000 else PEERS,
        )
        for size in sizes
    ]


FULL: tuple[Scenario, ...] = (
    *_reads("list_offsets", "4x", (100, 1_000, 10_000)),
    *_reads("find_coordinators", "4x", (100, 1_000, 10_000)),
    *_reads("describe", "4x", (100, 1_000, 10_000)),
    *_deletes("4x", (100, 1_000, 10_000)),
    *_reads("list_offsets", "4x", (50_000,)),
    *_reads("find_coordinators", "4x", (50_000,)),
    *_reads("describe", "4x", (50_000,)),
    *_deletes("4x", (50_000,)),
    *_reads("list_offsets", "4x_20ms", (100, 1_000, 10_000)),
    *_reads("find_coordinators", "4x_20ms", (1_000,)),
    *_reads("describe", "4x_20ms", (1_000,)),
    *_deletes("4x_20ms", (1_000,)),
    *_reads("list_offsets", "28", (50, 100, 1_000, 2_000, 10_000)),
    *_reads("find_coordinators", "28", (1_000,)),
    *_reads("describe", "28", (1_000,)),
    *_deletes("28", (1_000,)),
    *_reads("list_offsets", "28_20ms", (50, 100, 1_000, 2_000)),
    *_reads("find_coordinators", "28_20ms", (1_000,)),
    *_reads("describe", "28_20ms", (1_000,)),
    *_deletes("28_20ms", (1_000,)),
)
QUICK: tuple[Scenario, ...] = (
    Scenario("list_offsets", "4x", 10_000, colds=2, warms=5, budget_s=60.0),
    Scenario("delete", "4x", 10_000, colds=1, warms=2, budget_s=140.0),
)


def choose(patterns: Iterable[str], scenarios: Sequence[Scenario] = FULL) -> tuple[Scenario, ...]:
    """Return the scenarios whose name is one of these, or fits one of these shell patterns.

    Raises ``ValueError`` for a pattern that fits none.
    """
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(scenario.name, pattern) for scenario in scenarios):
            names = ", ".join(scenario.name for scenario in scenarios)
            raise ValueError(f"No scenario is called {pattern!r}. There are: {names}.")
    return tuple(scenario for scenario in scenarios if any(fnmatchcase(scenario.name, one) for one in wanted))
