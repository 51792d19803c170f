"""Hide hypothesis from programs that are measured, or started often: users have no such package."""

from pathlib import Path


def without_hypothesis(folder: Path) -> str:
    """Return a folder for ``PYTHONPATH`` in which hypothesis cannot be imported.

    The library kio imports it wherever it is installed, for half a second in each Python.

    :param folder: an empty one.
    """
    (folder / "hypothesis.py").write_text("raise ModuleNotFoundError('hypothesis: users have none, either')\n")
    return str(folder)
