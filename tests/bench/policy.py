"""``python -m tests.bench.policy``: plan many groups by a policy of many rules, and print the processor time of it.

The groups are those of a fake cluster, a third of them in families; the snapshot and the verdicts are files as the job
writes them. Only loading the policy and making the plan are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import load_policy
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import judge

GROUPS, RULES = 50_000, 50


def policy_text(rules: int, *, regexes: bool = False) -> str:
    """Return a policy: most rules by pattern and owner, some by family, topic and type, and one for the rest.

    :param regexes: whether all rules but the last match by a regular expression instead.
    """
    lines = ["version: 1", 'owner_from_id: "{owner}.*"', "rules:"]
    kinds: tuple[str, ...] = (
        "groups: ['team{n}.*', 'svc{n}-*'], except: '*.keep'",
        "owners: team{n}",
        "groups: 're:batch{n}-[0-9]+'",
        "families: uuid, groups: 'app{n}-*'",
        "topics: 'topic{n}-*', types: classic",
    )
    kinds = ("groups: 're:(team|batch|app){n}0[.-].*[0-9a-f]+'",) if regexes else kinds
    for n in range(rules - 1):
        action = "keep" if n % 7 == 0 else "delete"
        lines.append(
            f"- {{name: r{n}, match: {{{kinds[n % len(kinds)].format(n=n)}}}, action: {action}, idle: {n % 9 + 1}d}}"
        )
    return "\n".join([*lines, "- {name: rest, action: delete, idle: 8d}", ""])


def group_id(number: int) -> str:
    """Return the id of a group: of a team, of a batch, or with a UUID."""
    team = number % 97
    names = (f"team{team}.app-{number}", f"batch{team}-{number}", f"app{team}-{uuid.UUID(int=number * 7919)}")
    return names[number % 3]


async def measure(groups: int, rules: int, folder: Path, *, regexes: bool = False) -> dict[str, float]:
    """Return what was planned, and the processor seconds of it."""
    admin = FakeAdmin()
    for number in range(groups):
        admin.add(group_id(number), (f"topic{number % 50}-x", 0, 5))
    layout = Layout(folder, "prod")
    summary = await take_snapshot(admin, layout, now=lambda: NOW)
    verdicts = verdicts_of(judge(SnapshotReader(layout, summary.snapshot_id)))
    path = folder / "policy.yaml"
    path.write_text(policy_text(rules, regexes=regexes))
    before = processor_seconds()
    file = load_policy(path)
    loaded = processor_seconds()
    reader = SnapshotReader(layout, summary.snapshot_id)
    policy = PlanPolicy(max_groups=groups, max_share=1.0).by_file(file)
    plan = make_plan(verdicts, reader, policy, reader.manifest.observed_at, owners=file.owners)
    done = processor_seconds()
    return {
        "groups": groups,
        "rules": rules,
        "planned": len(plan.groups),
        "load_policy_seconds": round(loaded - before, 3),
        "plan_seconds": round(done - loaded, 3),
        "families": len(plan.families),
    }


def processor_seconds() -> float:
    """Return the processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.policy", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--groups", type=int, default=GROUPS, help=f"number of groups (default: {GROUPS})")
    parser.add_argument("--rules", type=int, default=RULES, help=f"number of rules (default: {RULES})")
    parser.add_argument("--regexes", action="store_true", help="all rules match by a regular expression")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(args.groups, args.rules, Path(folder), regexes=args.regexes))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
