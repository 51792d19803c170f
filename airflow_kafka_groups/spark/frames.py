"""The type of every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""The type of ``DataFrame.transform``'s argument: no reads or writes."""
