"""Spark's own floor: two rows through ``mapInArrow``, which starts Python on the executors and does nothing there."""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    assert session.range(2).mapInArrow(lambda batches: batches, "id long").count() == 2
    session.stop()
