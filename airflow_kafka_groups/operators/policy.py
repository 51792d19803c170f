"""The operator that checks a policy file before anything else is done by it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_duration, read_integer, read_place_or_nothing

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context


class CheckPolicyOperator(DeclaredArguments, BaseOperator):
    """Check a policy file, and return what the Spark job has to be asked for so that every rule can be decided.

    The job judges by one idle time: the smallest of the policy's rules that delete. The plan then decides by each
    group's own rule. Without a file, the arguments are returned as they are.

    :param policy_file: the policy file: an absolute path or a URL; empty or ``None`` for none (templated).
    :param min_idle_seconds: the idle time without a file: ``"7d"``, a ``timedelta`` or a number of seconds. Default: a
        week (templated).
    :param min_observations: the number of snapshots without a file. Default 2 (templated).
    :param max_gap_seconds: the longest time between two snapshots that the job may bridge, such as ``"2d"``, or
        seconds; 0 for no limit. The stricter of this and the file's counts. Default 0 (templated).

    Returns ``{"policy_file", "digest", "rules", "warnings", "min_idle_seconds", "min_observations",
    "max_gap_seconds"}``. Fails if the file cannot be read, is wrong, or one of its tests fails.
    """

    ui_color = "#d4e6f0"

    policy_file = Argument(optional(read_place_or_nothing))
    min_idle_seconds = Argument(read_duration)
    min_observations = Argument(partial(read_integer, minimum=2))
    max_gap_seconds = Argument(read_duration)

    @sets_arguments
    def __init__(
        self,
        *,
        policy_file: str | None = None,
        min_idle_seconds: float | str | timedelta = 7 * 86_400,
        min_observations: int | str = 2,
        max_gap_seconds: float | str | timedelta = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Read and check the file."""
        from airflow_kafka_groups.hooks.floors import configured_floors
        from airflow_kafka_groups.hooks.storage import open_policy
        from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy

        policy = PlanPolicy(
            min_idle_seconds=self.min_idle_seconds,
            min_observations=self.min_observations,
            max_gap_seconds=self.max_gap_seconds,
        )
        file = open_policy("policy_file", self.policy_file, configured_floors()) if self.policy_file else None
        if file is not None:
            policy = policy.by_file(file)
            self.log.info("Policy %s, digest %s: %d rules", file.path, file.digest, len(file.rules))
            for warning in file.warnings:
                self.log.warning("Policy %s: %s", file.path, warning)
        return {
            "policy_file": None if file is None else file.path,
            "digest": None if file is None else file.digest,
            "rules": [rule.name for rule in policy.rules],
            "warnings": [] if file is None else list(file.warnings),
            "min_idle_seconds": policy.min_idle_seconds,
            "min_observations": policy.min_observations,
            "max_gap_seconds": policy.max_gap_seconds,
        }
