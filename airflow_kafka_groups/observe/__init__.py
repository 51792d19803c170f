"""What is seen of a cluster: snapshots, members, the log of commits. No Airflow, no Spark.

In: brokers, and files of earlier observations. Out: snapshots and columns that ``judge`` works on.
"""
