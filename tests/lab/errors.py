"""The one error of the lab: a plain sentence that says what went wrong and what to do about it."""

from __future__ import annotations


class LabError(Exception):
    """Say why the lab cannot do what it was asked, and what to do about it."""
