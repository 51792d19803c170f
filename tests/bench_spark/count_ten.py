"""The smallest job that one can submit: count ten rows. Its time is Spark's own start and end."""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    assert session.range(10).count() == 10
    session.stop()
