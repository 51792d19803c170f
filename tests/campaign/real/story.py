"""Real histories as plain data made of a seed: what a run uses, its steps, and what goes wrong in them.

Real time passes, so a seed does not repeat a run to the millisecond: it repeats the groups, the steps and the faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

VERSIONS = ("4.4.0", "3.9.2")
STORAGES = ("disk", "s3")
KILLED_AT = {
    "plan": ("created", "read", "listed"),
    "backup": ("created", "created", "read", "offsets"),
    "delete": ("created", "created", "read", "listed", "describe", "offsets", "delete", "delete", "delete"),
    "restore": ("read", "offsets", "alter", "alter"),
}
_CALLS = {"created": 8, "read": 12, "listed": 4, "describe": 3, "offsets": 3, "delete": 3, "alter": 1}
SERVER_FAULTS = ("error", "error_after", "cut", "slow", "down")
LIVES = ("commit", "same", "join")


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a worker kills itself by SIGKILL: before, or milliseconds after, the nth call of a kind begins."""

    call: str
    nth: int
    after_ms: float | None = None


@dataclass(frozen=True, slots=True)
class RealStep:
    """One step of a run.

    :param action: ``snapshot``, ``plan``, ``ask``, ``answer``, ``backup``, ``delete``, ``restore``: by workers;
        ``wait``: for the idle time; ``life``: a dead group comes back; ``broker``, ``election``, ``server``: faults.
    :param workers: how many do this at once.
    :param kill: where the first of them is killed.
    :param beside: what happens while they work, with the seconds after which it does.
    """

    action: str
    workers: int = 1
    kill: Kill | None = None
    detail: str = ""
    beside: tuple[tuple[float, RealStep], ...] = ()


@dataclass(frozen=True, slots=True)
class RealStory:
    """One run.

    :param reads_commits: whether the log of commits is read, as ``commit_history`` does.
    :param takes_lease: whether deletions take the cluster's lease.
    :param asks: whether a person has to approve the plans.
    """

    seed: int
    version: str
    storage: str
    reads_commits: bool
    takes_lease: bool
    asks: bool
    dead: int
    steps: tuple[RealStep, ...]


def real_story(seed: int) -> RealStory:
    """Make the run of a seed: snapshots until groups are idle, then a clean-up with faults, and one more."""
    random = Random(f"real {seed}")
    asks = random.random() < 0.4
    story = [RealStep("snapshot"), RealStep("wait"), RealStep("snapshot"), *_clean_up(random, asks, seed)]
    if random.random() < 0.6:
        story += [RealStep("snapshot"), RealStep("wait"), RealStep("snapshot"), *_clean_up(random, asks, seed)]
    return RealStory(
        seed=seed,
        version=VERSIONS[seed // 2 % 2],
        storage=STORAGES[seed % 2],
        reads_commits=bool(seed // 4 % 2),
        takes_lease=bool(seed % 3),
        asks=asks,
        dead=random.randint(20, 32),
        steps=tuple(story),
    )


def _clean_up(random: Random, asks: bool, seed: int) -> list[RealStep]:
    steps = [RealStep("plan", kill=_kill(random, "plan", 0.1))]
    if asks:
        steps += [RealStep("ask"), RealStep("answer", detail=random.choice(("all", "all", "but some", "no")))]
    if random.random() < 0.3:
        steps.append(_life(random))
    steps.append(RealStep("backup", workers=random.choice((1, 1, 2)), kill=_kill(random, "backup", 0.25)))
    if random.random() < 0.2:
        steps.append(_life(random))
    steps.append(_delete(random, seed, faults=0.9))
    if asks and random.random() < 0.2:
        steps.append(RealStep("ask"))
    for _ in range(random.choice((1, 1, 2))):
        if random.random() < 0.6:
            steps.append(RealStep("restore", kill=_kill(random, "restore", 0.15)))
        steps.append(_delete(random, seed, faults=0.4))
    return steps


def _delete(random: Random, seed: int, *, faults: float) -> RealStep:
    workers = 2 if random.random() < 0.3 else 1
    if random.random() >= faults:
        return RealStep("delete", workers)
    kind = random.choice(("kill", "kill", "kill", "beside", "beside", "both"))
    kill = _kill(random, "delete", 1.0) if kind != "beside" else None
    beside: tuple[tuple[float, RealStep], ...] = ()
    if kind != "kill":
        choices = [RealStep("restore"), _life(random), RealStep("election"), RealStep("delete")]
        if seed % 2:
            choices += [RealStep("server", detail=random.choice(SERVER_FAULTS))] * 3
        if random.random() < 0.1:
            choices = [RealStep("broker")]
        beside = ((round(random.uniform(0.0, 1.0), 2), random.choice(choices)),)
    return RealStep("delete", workers, kill, beside=beside)


def _life(random: Random) -> RealStep:
    return RealStep("life", detail=random.choice(LIVES))


def _kill(random: Random, action: str, chance: float) -> Kill | None:
    if random.random() >= chance:
        return None
    call = random.choice(KILLED_AT[action])
    after = round(random.uniform(0, 40), 1) if random.random() < 0.6 else None
    most = {"plan": 3, "backup": 2}.get(action, _CALLS[call])
    return Kill(call, random.randrange(min(most, _CALLS[call])), after)
