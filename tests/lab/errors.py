"""The one error of the lab: a plain sentence that says what went wrong and what to do about it."""


class LabError(Exception):
    """A request that the lab cannot fulfil, with the remedy."""
