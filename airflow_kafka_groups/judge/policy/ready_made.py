"""Ready-made rules, which a policy file uses by name: ``- use: console-consumers``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READY_MADE: Mapping[str, Mapping[str, Any]] = {
    # kafka-console-consumer without --group: console-consumer-<number>.
    "console-consumers": {"match": {"groups": ["console-consumer-*"]}, "action": "delete", "idle": "1d"},
    # Spark's own groups; they belong to a query that has ended.
    "spark-kafka-sources": {
        "match": {"groups": ["spark-kafka-source-*", "spark-kafka-relation-*"]},
        "action": "delete",
        "idle": "2d",
    },
    # A group id made from a random UUID is never used again by the next process.
    "uuid-tails": {"match": {"families": ["uuid"]}, "action": "delete", "idle": "3d"},
    "preview-environments": {
        "match": {"groups": ["preview-*", "*-preview-*", "*.preview.*", "pr-[0-9]*", "*-pr-[0-9]*", "review-*"]},
        "action": "delete",
        "idle": "3d",
    },
}
"""The rules by name, as a file would have them. A file that uses one can set anything else in it."""
