"""Spark jobs and transforms, shipped by spark-submit; they import pyspark, the standard library and ``contracts``."""
