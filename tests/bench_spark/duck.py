"""Ask DuckDB how many groups are stale: ``python -m tests.bench_spark.duck CORES SECONDS < files.json``.

The heart of judge_staleness as one query on the same files: a digest for each group and snapshot, what differs from the
one before, and since when nothing does. No manifests, gaps, lives or errors: less work, and what one machine can do.
"""

import json
import sys

import duckdb

QUERY = """
with observed as (
  select run_id, group_id, min(state) as state, max(members) as members, max(observed_at) as seen_at,
    bit_xor(hash(topic, partition, committed_offset, leader_epoch, metadata)) as digest
  from read_parquet($files) group by run_id, group_id
), compared as (
  select *, digest <> lag(digest) over (partition by group_id order by run_id) as moved from observed
), idle as (
  select group_id, max(seen_at) as newest, bool_and(state = 'Empty' and members = 0) as empty,
    coalesce(max(seen_at) filter (where moved), min(seen_at)) as since
  from compared group by group_id
)
select count(*) from idle where empty and epoch(newest) - epoch(since) >= $seconds
"""


def main() -> None:
    cores, seconds = int(sys.argv[1]), int(sys.argv[2])
    with duckdb.connect(config={"threads": cores, "memory_limit": "2GB"}) as connection:
        row = connection.execute(QUERY, {"files": json.load(sys.stdin), "seconds": seconds}).fetchone()
    print(row[0] if row else 0)


if __name__ == "__main__":
    main()
