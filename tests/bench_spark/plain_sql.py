"""The heart of judge_staleness as plain Spark SQL on the same files, as DuckDB is asked it: see ``duck``."""

import sys

from pyspark.sql import SparkSession

QUERY = """
with observed as (
  select run_id, group_id, min(state) as state, max(members) as members, max(observed_at) as seen_at,
    bit_xor(xxhash64(topic, partition, committed_offset, leader_epoch, metadata)) as digest
  from snapshots group by run_id, group_id
), compared as (
  select *, digest <> lag(digest) over (partition by group_id order by run_id) as moved from observed
), idle as (
  select group_id, max(seen_at) as newest, bool_and(state = 'Empty' and members = 0) as empty,
    coalesce(max(seen_at) filter (where moved), min(seen_at)) as since
  from compared group by group_id
)
select count(*) as stale from idle where empty and unix_micros(newest) - unix_micros(since) >= {seconds} * 1000000L
"""

if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.read.parquet(f"{sys.argv[1]}/*/*.parquet").createOrReplaceTempView("snapshots")
    print(session.sql(QUERY.format(seconds=int(sys.argv[2]))).collect()[0]["stale"])
    session.stop()
