"""Many clusters in one run: a cluster that fails is named, and holds no other up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage

ALL = "*"
"""All clusters of a base folder."""

PLACEHOLDER = "{cluster}"
"""What a path has in the place of the cluster's name."""

T = TypeVar("T")
_SHOWN = ("snapshot_id", "groups", "verdicts", "lag", "warnings", "seconds")


def is_one(asked: Sequence[str]) -> bool:
    """Return whether one cluster is asked for, by its name."""
    return len(asked) == 1 and asked[0] != ALL


def check_cluster(name: str) -> None:
    """Raise ``ArgumentError`` if this is not the name of a cluster."""
    if not paths.is_cluster_name(name):
        raise ArgumentError("--cluster", name, paths.CLUSTER_NAME_RULE)


def check_clusters(
    asked: Sequence[str], *, of_one: Mapping[str, str | None], of_each: Mapping[str, str | None]
) -> None:
    """Check the names of clusters, and other arguments that depend on how many they are.

    :param asked: names, or ``ALL``.
    :param of_one: arguments for one cluster only, by option.
    :param of_each: paths that differ from cluster to cluster, by option.

    Raises ``ArgumentError``.
    """
    for name in asked:
        if name != ALL:
            check_cluster(name)
    if is_one(asked):
        return
    for option, value in of_one.items():
        if value is not None:
            raise ArgumentError(option, value, "leave it out with several clusters")
    for option, value in of_each.items():
        if value is not None and PLACEHOLDER not in value:
            raise ArgumentError(option, value, f"write {PLACEHOLDER} where the path has the cluster's name")


def clusters_in(storage: Storage, base: str, asked: Sequence[str]) -> list[str]:
    """Return the clusters that are asked for, each once.

    :param asked: names, or ``ALL`` for every folder that has manifests of snapshots.

    Raises ``ArgumentError`` if there is none.
    """
    if ALL not in asked:
        return list(dict.fromkeys(asked))
    names = list(filter(paths.is_cluster_name, storage.folders(base)))
    found = [name for name in names if storage.list(f"{base}/{name}/{paths.MANIFESTS}")]
    if not found:
        raise ArgumentError("--cluster", ALL, f"{base} has no folder with snapshots: check --base")
    return list(dict.fromkeys([*found, *(name for name in asked if name != ALL)]))


def of_each_cluster(
    storage: Storage, base: str, asked: Sequence[str], work: Callable[[str], T], warn: Callable[[str], None]
) -> tuple[dict[str, T], dict[str, str]]:
    """Call a function for each cluster; return the results, and why clusters failed, in the order of the clusters.

    :param warn: called for each cluster that fails.
    """
    done: dict[str, T] = {}
    failed: dict[str, str] = {}
    for cluster in clusters_in(storage, base, asked):
        try:
            done[cluster] = work(cluster)
        except Exception as exc:  # noqa: BLE001  # whatever it is, it holds no other up
            failed[cluster] = str(exc) if isinstance(exc, JobError) else f"{type(exc).__name__}: {first_line(exc)}"
            warn(f"cluster {cluster} failed: {failed[cluster]}")
    return done, failed


def fleet_summary(judged: Mapping[str, Mapping[str, Any]], failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers of each cluster, and their sums."""
    verdicts: Counter[str] = Counter()
    for summary in judged.values():
        verdicts.update(summary["verdicts"])
    return {
        "clusters": {name: {key: each[key] for key in _SHOWN} for name, each in judged.items()},
        "failed": failed,
        **{key: sum(each[key] for each in judged.values()) for key in ("groups", "lag")},
        "verdicts": dict(verdicts),
    }
