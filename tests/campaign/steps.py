"""Histories: what happens to a model cluster and a model storage, step by step, as plain data made of a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

HOUR, DAY = 3_600, 86_400
STORAGE_CALLS = ("ls", "read", "create")
CLUSTER_CALLS = ("list", "describe", "offsets", "delete", "alter")
BEHAVIOURS = ("dead", "dead", "dead", "dead", "member", "mover", "same", "flapping", "share", "visitor")
EVENTS = ("join", "leave", "commit", "same", "flap", "hide", "show", "share", "visit")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong at one call of a process.

    :param call: the kind of the call; ``nth``: which of them.
    :param kind: ``kill``, ``kill_after``, ``cancel``, ``interrupt``, ``error``, ``lost``, ``stale``, ``jump``,
        ``pause``, ``clock``, ``move``, ``silent``, ``hidden``, ``life`` or ``other``.
    :param arg: the class of the error, the seconds of a jump, or the group and its event.
    :param steps: what another process does meanwhile.
    """

    call: str
    nth: int
    kind: str
    arg: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an action, its numbers, and the faults of the process that takes it."""

    action: str
    a: int = 0
    b: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """A history.

    :param behaviours: how the consumers of each group behave.
    :param prunes: whether it prunes topics of live groups (``pruning``) instead of deleting groups.
    """

    seed: int
    behaviours: tuple[str, ...]
    steps: tuple[Step, ...]
    prunes: bool = False


def story_of(seed: int) -> Story:
    """Make the history of a seed: a few days of snapshots, then clean-ups to which things happen."""
    random = Random(seed)
    behaviours = tuple(random.choice(BEHAVIOURS) for _ in range(random.randint(3, 6)))
    steps = [Step("snapshot"), Step("wait", 20), Step("snapshot"), Step("wait", 20)]
    while len(steps) < random.randint(14, 40):
        steps += _cycle(random, len(behaviours))
    return Story(seed, behaviours, tuple(steps))


def _cycle(random: Random, groups: int) -> list[Step]:
    """A clean-up with what comes before, in between and after it."""
    steps = [
        *_noise(random, groups, 0.3),
        Step("snapshot", random.choice((0, 0, 0, 1)), faults=_few(random, groups, 0.2)),
    ]
    if random.random() < 0.15:
        named = _named(random, groups)
        again = [Step("restore"), Step("named", named.a, 1)] if random.random() < 0.5 else []
        return [*steps, named, *again, Step("wait", random.randint(1, 30))]
    asked = random.random() < 0.4
    judge = random.choice((0, 0, 0, 0, 1, 2))
    steps.append(Step("plan", int(asked), judge, _few(random, groups, 0.1)))
    if judge == 2:  # whom it calls stale with members has none a little later
        steps += [Step("life", group, EVENTS.index("leave")) for group in range(groups)]
    if asked:
        steps.append(Step("ask", faults=_few(random, groups, 0.15)))
        steps.append(
            Step("answer", random.choice((0, 0, 0, 1, 2, 3)), random.randrange(groups), _few(random, groups, 0.15))
        )
        if random.random() < 0.15:
            steps.append(Step("ask"))
    steps += _noise(random, groups, 0.3)
    steps.append(Step("backup", faults=_in_backup(random, groups)))
    steps += _noise(random, groups, 0.3)
    steps.append(Step("delete", faults=_in_deletion(random, groups)))
    if random.random() < 0.15:
        steps += _cleared_blindly(random)
    for _ in range(random.choice((0, 1, 1, 2))):
        steps += _noise(random, groups, 0.25)
        if random.random() < 0.6:
            steps.append(Step("restore", faults=_few(random, groups, 0.15)))
        if random.random() < 0.6:
            steps.append(Step("delete", random.choice((0, 0, 0, 1)), faults=_in_later_deletion(random, groups)))
    return [*steps, Step("wait", random.choice((1, 5, 20, 30)))]


def _noise(random: Random, groups: int, chance: float) -> list[Step]:
    return [_event(random, groups)] if random.random() < chance else []


def _event(random: Random, groups: int) -> Step:
    return Step("life", random.randrange(groups), random.randrange(len(EVENTS)))


def _named(random: Random, groups: int) -> Step:
    return Step("named", random.randrange(groups), random.randint(0, 1), _few(random, groups, 0.7))


def _few(random: Random, groups: int, chance: float) -> tuple[Fault, ...]:
    if random.random() >= chance:
        return ()
    return tuple(_fault(random, groups) for _ in range(random.choice((1, 1, 2, 3))))


def _in_backup(random: Random, groups: int) -> tuple[Fault, ...]:
    """Faults of a backup: any, groups that it cannot read, or a faster one and its deletion while it writes."""
    if random.random() < 0.6:
        return _few(random, groups, 0.4)
    if random.random() < 0.5:
        return (Fault("offsets", 0, random.choice(("silent", "move")), random.randrange(12)),)
    faster = (Step("backup"), Step("delete"))
    return (Fault(random.choice(("offsets", "offsets", "create")), 0, "other", 0, faster),)


def _cleared_blindly(random: Random) -> list[Step]:
    """A restore, and the cleared task while listings are late and one reading fails."""
    late = tuple(Fault("ls", nth, "stale") for nth in range(4))
    return [Step("restore"), Step("delete", faults=(*late, Fault("read", random.randrange(2, 8), "error")))]


def _in_later_deletion(random: Random, groups: int) -> tuple[Fault, ...]:
    """Faults of a cleared task: any, or a listing that is late beside a reading that fails."""
    if random.random() < 0.7:
        return _few(random, groups, 0.5)
    return _cleared_blindly(random)[-1].faults


def _in_deletion(random: Random, groups: int) -> tuple[Fault, ...]:
    """Faults of a deletion: any, or several that go together."""
    if random.random() < 0.5:
        return _few(random, groups, 0.8)
    chunk, group = random.randrange(2), 8 * random.randrange(groups)
    join, leave, commit, share = (group + EVENTS.index(name) for name in ("join", "leave", "commit", "share"))
    slow = random.choice((3, 4, 5))
    again = (Step("delete"), Step("restore"))
    moment = random.choice(("describe", "offsets", "create"))
    together: tuple[tuple[Fault, ...], ...] = (
        (Fault("describe", chunk, "life", join), Fault("delete", chunk, "life", leave)),
        (Fault("create", 1 + 2 * chunk, "jump", slow), Fault("delete", chunk, "life", commit)),
        (Fault("offsets", chunk, "jump", slow), Fault("delete", chunk, "life", commit)),
        (Fault("delete", chunk, "pause"), Fault("delete", chunk, "life", commit)),
        (Fault(moment, chunk + (moment == "create"), "other", 1, again),),
        (Fault("delete", chunk, random.choice(("kill", "kill_after"))),),
        (
            Fault("delete", chunk, "lost", random.choice((2, 3))),
            Fault("list", 1, "hidden"),
            *(Fault("describe", nth, "move", 1) for nth in range(chunk + 1, 3)),
        ),
        (Fault("describe", chunk, "life", share),),
        (Fault(random.choice(("read", "describe", "create", "delete")), chunk, "clock", random.randrange(5)),),
        (Fault("delete", chunk, "lost", random.randrange(4)),),
    )
    return random.choice(together)


_COMMON = ("kill", "kill_after", "cancel", "interrupt", "error", "lost", "jump", "other", "other", "life", "life")


def _fault(random: Random, groups: int) -> Fault:
    on_storage = random.random() < 0.5
    call = random.choice(STORAGE_CALLS if on_storage else (*CLUSTER_CALLS, "delete", "delete"))
    kind = random.choice((*_COMMON, *(("stale", "stale") if on_storage else ("move", "silent", "hidden"))))
    if kind == "stale":
        call = "ls"
    nth = random.randrange({"ls": 4, "read": 14, "create": 7}.get(call, 3))
    arg = random.randrange(1_000)
    return Fault(call, nth, kind, arg, _meanwhile(random, groups) if kind == "other" else ())


def _meanwhile(random: Random, groups: int) -> tuple[Step, ...]:
    choices: tuple[tuple[Step, ...], ...] = (
        (Step("delete"),),
        (Step("delete"), Step("restore")),
        (Step("restore"),),
        (Step("backup"), Step("delete")),
        (Step("backup"), Step("delete"), Step("restore")),
        (Step("named", random.randrange(groups)), Step("restore")),
        (Step("ask"),),
        (_event(random, groups), _event(random, groups)),
    )
    return random.choice(choices)


def shorter(story: Story) -> Iterator[Story]:
    """Yield histories with less in them: runs of steps, single steps, then single faults taken out."""
    steps = story.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield replace(story, steps=steps[:start] + steps[start + size :])
        size //= 2
    for place, step in enumerate(steps):
        for number in range(len(step.faults)):
            faults = step.faults[:number] + step.faults[number + 1 :]
            yield replace(story, steps=(*steps[:place], replace(step, faults=faults), *steps[place + 1 :]))
