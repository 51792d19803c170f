"""The type of every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame

Transform: TypeAlias = Callable[[DataFrame], DataFrame]
"""What ``DataFrame.transform`` takes: a DataFrame in, a DataFrame out, nothing read or written."""
