"""One lane: commands that run one after the other, beside other lanes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane's commands and what the scheduler has to know about it.

    :param name: unique; also the name of its files.
    :param commands: run in this order; the first that fails ends the lane.
    :param needs: the lanes that must have succeeded before.
    :param load: processors that it keeps busy on average. Default 0.75: one process, which waits as well.
    :param nice: how much it gives way to other lanes (``nice -n``).
    :param environment: additions to the environment.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    needs: tuple[str, ...] = ()
    load: float = 0.75
    nice: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


def choose(lanes: Sequence[Lane], names: Iterable[str]) -> tuple[Lane, ...]:
    """Return the named lanes and those that they need, in the order of ``lanes``.

    Raises ValueError for a name that none has.
    """
    known = {lane.name: lane for lane in lanes}
    wanted: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in known:
            raise ValueError(f"There is no lane {name!r}; there are {', '.join(known)}.")
        if name not in wanted:
            wanted.add(name)
            open_names += known[name].needs
    return tuple(lane for lane in lanes if lane.name in wanted)
