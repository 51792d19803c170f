"""The clusters that a policy file is for: each has a name, which is its folder in the storage, and a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.judge.policy.yaml_lines import Path, Problems
from airflow_kafka_groups.storage.paths import CLUSTER_NAME_RULE, is_cluster_name


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """One cluster of a fleet.

    :param name: the cluster's folder in the storage.
    :param conn_id: the id of its connection.
    """

    name: str
    conn_id: str


def read_clusters(problems: Problems, given: Mapping[str, Mapping[str, Any] | None]) -> tuple[FleetCluster, ...]:
    """Return the clusters in the order of the file, and add what cannot be meant to the problems.

    :param given: the section ``clusters``, checked by the schema.
    """
    found: dict[str, FleetCluster] = {}
    folders: dict[str, str] = {}
    for name, settings in given.items():
        path: Path = ("clusters", name)
        conn_id = (settings or {}).get("connection", name)
        if conn_id != conn_id.strip():
            problems.add((*path, "connection"), f"(got {conn_id!r}) begins or ends with a space: remove it")
        elif not is_cluster_name(name):
            problems.add(path, f"cannot be the name of a folder: {CLUSTER_NAME_RULE}")
        elif (other := folders.get(name.lower())) is not None:
            problems.add(path, f"differs from {other!r} in case only, and some storages take both for one: rename it")
        elif conn_id in found:
            problems.add(
                (*path, "connection"),
                f"(got {conn_id!r}) is that of {found[conn_id].name!r}: two folders for one cluster are two histories. "
                "Remove one",
            )
        else:
            folders[name.lower()] = name
            found[conn_id] = FleetCluster(name, conn_id)
    return tuple(found.values())
