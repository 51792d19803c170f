"""When a person has to approve a plan, and who may. Cheap to import: DAG files name the rules."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ConfigurationError

ALWAYS, ABOVE_CAP, NEVER = "always", "above_cap", "never"
RULES = (ALWAYS, ABOVE_CAP, NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """When a person has to approve, and who may.

    :param rule: ``"always"``; ``"above_cap"``: when more than ``approve_above`` groups or topics are planned;
        ``"never"``.
    :param approve_above: the most of them that ``"above_cap"`` lets pass, 0 or more. Default 100.
    :param approvers: the ids of the Airflow users whose approval counts. Default: everybody's.
    """

    rule: str = NEVER
    approve_above: int = 100
    approvers: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigurationError("approval_rule", self.rule, f"must be one of {', '.join(RULES)}")

    def why(self, planned: int, noun: str = "groups") -> str | None:
        """Return why a plan of this size needs an approval, ``None`` if it needs none.

        :param noun: what is planned. Default: groups.
        """
        if not planned or self.rule == NEVER:
            return None
        if self.rule == ALWAYS:
            return "every deletion has to be approved"
        if planned <= self.approve_above:
            return None
        return f"{planned} {noun} are planned, and more than {self.approve_above} have to be approved"
