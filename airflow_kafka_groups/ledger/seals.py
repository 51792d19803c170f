"""The seals of a plan: the digest of its header, and the hash of the file of groups that the header vouches for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.ledger.plan_rows import PlannedGroups
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.digest import digest_of
from airflow_kafka_groups.storage.file_errors import unless_damaged
from airflow_kafka_groups.storage.formats import UnknownFormatError, check_format
from airflow_kafka_groups.storage.paths import plan_body

_REQUIRED = ("group_id", "reason", "group_type", "protocol_type", "state", "partitions", "fingerprint")


def check_header(data: Mapping[str, Any]) -> None:
    """Raise ``PlanError`` unless a plan has the known format, and the digest of all the rest."""
    try:
        check_format(data)
    except UnknownFormatError as exc:
        raise PlanError(f"plan {data.get('plan_id')!r} cannot be read: {exc}") from exc
    with unless_damaged(PlanError, f"plan {data.get('plan_id')!r}"):  # by what no writer writes, such as NaN
        digest = digest_of(data)
    if digest != data.get("digest"):
        raise PlanError(
            f"plan {data.get('plan_id')!r} was changed after it was made (digest mismatch): make a new plan"
        )


def check_body(data: Mapping[str, Any], body: bytes) -> None:
    """Raise ``PlanError`` unless a plan's header vouches for this file with its groups."""
    sealed = data["body"]
    if sealed["name"] != body_name(data["plan_id"]):
        raise PlanError(f"plan {data['plan_id']!r} is damaged: it names the file {sealed['name']!r}")
    if hashlib.sha256(body).hexdigest() != sealed["sha256"]:
        raise PlanError(
            f"plan {data['plan_id']!r}: the groups in {sealed['name']} are not those of the plan (its SHA-256 differs "
            "from the header's): make a new plan"
        )


def body_name(plan_id: str) -> str:
    """Return the name of the file with a plan's groups."""
    return plan_body(plan_id).rpartition("/")[2]


def check_groups(plan_id: str, groups: PlannedGroups) -> None:
    """Raise ``PlanError`` for a planned group that lacks something, or that is named twice."""
    import pyarrow.compute as pc

    table = groups.table
    if pc.count_distinct(table["group_id"]).as_py() != len(table):
        raise PlanError(f"plan {plan_id} names a group twice")
    for name in _REQUIRED:
        if table[name].null_count:
            raise PlanError(f"plan {plan_id} has a group without its {name}")
    if not pc.all(pc.is_finite(table["idle_seconds"]), min_count=0).as_py():
        raise PlanError(f"plan {plan_id} cannot be written: an idle time is not finite")
    sealed = pc.match_substring_regex(table["fingerprint"], r"^[0-9a-f]{64}$")
    if (first := pc.index(sealed, literal(False)).as_py()) >= 0:  # the value, not a switch
        group_id = table["group_id"][first].as_py()
        raise PlanError(f"plan {plan_id}: group {group_id!r} has no fingerprint of its offsets")
