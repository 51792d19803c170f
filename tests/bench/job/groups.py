"""The groups that the job removes: their names, and what they have committed."""

PREFIX = "team-"
TOPIC, PARTITIONS, RECORDS = "job", 10, 100
OFFSETS = {(TOPIC, partition): 50 + partition for partition in range(PARTITIONS)}


def group_ids(count: int) -> list[str]:
    """Return so many names, about as long and as alike as real ones."""
    return [f"{PREFIX}{number % 97:02d}.service-{number:06d}" for number in range(count)]
