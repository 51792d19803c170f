"""The cluster as one connection saw it, so that a plan is bound to more than the cluster's id.

A proxy may relay the id of one upstream cluster to several tenants, and a cloned cluster keeps its id. So whoever
carries out a plan looks again. Other topics by the same names, or none of the brokers, is another cluster: refused.
Another connection or a broker replaced is a warning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.checks import is_digest
from airflow_kafka_groups.exceptions import KafkaGroupsError, PlanError
from airflow_kafka_groups.kafka.cluster.config import ConnectionPrint, sha256_of
from airflow_kafka_groups.storage.formats import read_model

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

HIDDEN_TOPICS = (
    "this user may not describe all topics, and brokers omit the offsets of other topics without notice: groups may "
    "have offsets that are not visible. Allow Describe on all topics, or set allow_hidden_topics"
)
SAMPLE_TOPICS = 50
_NO_IDS = "the brokers return no id of these topics: they do not exist, or Kafka is older than 2.8"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as one connection saw it at one moment.

    :param brokers: the advertised address of each broker, by its id.
    :param topic_ids: the ids of a sample of topics, as far as they exist and have one.
    :param topic_ids_unknown: why no topic's id could be read; ``None`` if they could.
    """

    connection: ConnectionPrint
    brokers: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    topic_ids_unknown: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterView:
        """Read ``to_json()`` back. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what is damaged."""
        view = read_model(cls, data)
        if not (is_digest(view.connection.servers) and is_digest(view.connection.identity)):
            raise ValueError("the view's connection has no fingerprint")
        return view

    def __str__(self) -> str:
        topics = f"{len(self.topic_ids)} topic ids"
        if not self.topic_ids:
            topics = f"no topic ids ({self.topic_ids_unknown or 'none was asked for'})"
        return f"{len(self.brokers)} brokers, {topics}, connection {self.connection.servers[:8]}"


def recorded_view(data: Mapping[str, Any] | None, where: str) -> ClusterView | None:
    """Read the view in a file, ``None`` where nobody looked. Raises ``PlanError`` for a damaged one."""
    try:
        return None if data is None else ClusterView.from_json(data)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise PlanError(f"{where} has a damaged view of the cluster: {type(exc).__name__}: {exc}") from exc


ViewReader = Callable[[Iterable[str]], Awaitable[ClusterView]]


def sample_of(topics: Iterable[str]) -> list[str]:
    """Return some of the topics, the same ones of the same topics: by a hash of the name, not by its first letters."""
    return sorted(sorted(set(topics), key=sha256_of)[:SAMPLE_TOPICS])


async def read_view(admin: MaintenanceClient, topics: Iterable[str]) -> ClusterView:
    """Look at the cluster now.

    :param topics: whose ids are asked for.

    Where brokers have no topic ids (before Kafka 2.8), the view says so.
    """
    wanted = list(topics)
    topic_ids = await admin.topic_ids(wanted) if wanted else {}
    return ClusterView(
        connection=admin.connection,
        brokers={str(broker.broker_id): f"{broker.host}:{broker.port}".lower() for broker in await admin.brokers()},
        topic_ids=dict(topic_ids),
        topic_ids_unknown=_NO_IDS if wanted and not topic_ids else None,
    )


async def read_view_for_snapshot(admin: MaintenanceClient, topics: Iterable[str]) -> ClusterView:
    """Look at the cluster and a sample of these topics. A snapshot does not fail because topic ids cannot be read."""
    sample = sample_of(topics)
    try:
        return await read_view(admin, sample)
    except KafkaGroupsError as error:
        without = await read_view(admin, ())
        return ClusterView(connection=without.connection, brokers=without.brokers, topic_ids_unknown=str(error))


async def check_view(admin: MaintenanceClient, plan_id: str, made: ClusterView | None) -> tuple[str, ...]:
    """Check that a plan is carried out on the cluster that it was made for.

    :param made: what the plan's snapshot saw; ``None`` if nobody looked, so that the plan is bound to the
        cluster's id alone.

    Returns warnings. Raises ``PlanError`` for another cluster, and what ``topic_ids`` of the client raises when no
    broker answers: nothing was deleted then.
    """
    if made is None:
        return ()
    return compare_views(plan_id, made, await read_view(admin, made.topic_ids))


def compare_views(plan_id: str, made: ClusterView, here: ClusterView) -> tuple[str, ...]:
    """Return what differs and is no reason to stop. Raises ``PlanError`` where these are two clusters."""
    warnings = [*_compare_topics(plan_id, made, here)]
    if not made.brokers.items() & here.brokers.items():
        raise _another(
            plan_id, f"none of its brokers ({_shown(made.brokers.values())}) is here ({_shown(here.brokers.values())})"
        )
    if made.brokers != here.brokers:
        gone = [f"{id_} at {made.brokers[id_]}" for id_ in made.brokers if made.brokers[id_] != here.brokers.get(id_)]
        new = [f"{id_} at {here.brokers[id_]}" for id_ in here.brokers if here.brokers[id_] != made.brokers.get(id_)]
        changes = [f"{word}: {_shown(found)}" for word, found in (("not here now", gone), ("new", new)) if found]
        warnings.append(f"the brokers are not those of the plan's snapshot ({'; '.join(changes)})")
    parts = [
        what
        for what, name in (("other bootstrap servers", "servers"), ("another user", "identity"))
        if getattr(made.connection, name) != getattr(here.connection, name)
    ]
    if parts:
        warnings.append(f"the plan's snapshot was taken through another connection ({' and '.join(parts)})")
    return tuple(warnings)


def _compare_topics(plan_id: str, made: ClusterView, here: ClusterView) -> list[str]:
    if not made.topic_ids:
        return []  # the plan says why
    both = made.topic_ids.keys() & here.topic_ids.keys()
    other = sorted(topic for topic in both if made.topic_ids[topic] != here.topic_ids[topic])
    if other and 2 * len(other) >= len(both):
        raise _another(
            plan_id, f"{len(other)} of {len(both)} sampled topics have other ids here (first: {_shown(other)})"
        )
    if other:
        return [f"{len(other)} of {len(both)} sampled topics were recreated since the snapshot ({_shown(other)})"]
    if not both and here.topic_ids_unknown == _NO_IDS:  # brokers that had ids have them still
        raise _another(plan_id, f"none of {len(made.topic_ids)} sampled topics ({_shown(made.topic_ids)}) exists here")
    if not both:
        return [
            f"topic ids could not be compared ({here.topic_ids_unknown}): "
            "only the cluster's id and its brokers say that it is the same"
        ]
    return []


def _another(plan_id: str, why: str) -> PlanError:
    return PlanError(
        f"plan {plan_id} was made for another cluster than this connection leads to, although both report the same "
        f"cluster id: {why}. Nothing was deleted. Check the connection; if the cluster was moved or its topics were "
        "recreated, take a snapshot through this connection and make a new plan"
    )


def _shown(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
