"""The options of a membership: the group and its timeouts, checked against each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ConfigurationError

_INSTANCE_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HEARTBEATS_PER_SESSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """All settings of a membership except its callbacks.

    :param group_id: the group to join.
    :param group_instance_id: makes the membership static (KIP-345): the member can return under this name within the
        session timeout without a rebalance, so it sends no LeaveGroup when it stops. Default: dynamic.
    :param session_timeout: seconds without a heartbeat after which the coordinator removes the member. By default
        brokers accept 6 s to 30 min. Default 45.
    :param rebalance_timeout: seconds that the group waits for this member to rejoin, including its callbacks. Default
        60.
    :param heartbeat_interval: seconds between heartbeats. Default 3.
    :param retry_backoff: seconds to wait after the first failure, doubled after each further one. Default 0.1.
    :param max_backoff: maximum seconds between two retries. Default 1.
    :param callback_tries: calls of ``on_join_complete`` with the same arguments before its error ends the membership.
        Default 5.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout: float = 45.0
    rebalance_timeout: float = 60.0
    heartbeat_interval: float = 3.0
    retry_backoff: float = 0.1
    max_backoff: float = 1.0
    callback_tries: int = 5

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigurationError("group_id", self.group_id, "must be the id of a group, not empty")
        name = self.group_instance_id
        if name is not None and (name in (".", "..") or not _INSTANCE_ID.fullmatch(name)):
            raise ConfigurationError("group_instance_id", name, "use 1 to 249 letters, digits, dots, _ or -")
        for field in ("session_timeout", "rebalance_timeout", "heartbeat_interval", "retry_backoff", "max_backoff"):
            if not 0 < getattr(self, field) < 2**31 / 1000:
                raise ConfigurationError(field, getattr(self, field), "must be a number of seconds above 0")
        if self.heartbeat_interval * _HEARTBEATS_PER_SESSION > self.session_timeout:
            raise ConfigurationError(
                "heartbeat_interval",
                self.heartbeat_interval,
                f"must be at most a third of session_timeout ({self.session_timeout:g} s): one may get lost",
            )
        if self.rebalance_timeout < self.session_timeout:
            raise ConfigurationError(
                "rebalance_timeout",
                self.rebalance_timeout,
                f"must be at least session_timeout ({self.session_timeout:g} s)",
            )
        if self.max_backoff < self.retry_backoff:
            raise ConfigurationError("max_backoff", self.max_backoff, "must be at least retry_backoff")
        if self.callback_tries < 1:
            raise ConfigurationError("callback_tries", self.callback_tries, "must be an integer of at least 1")
