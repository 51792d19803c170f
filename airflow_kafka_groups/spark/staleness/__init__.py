"""What of a judgement needs Spark: the reduction of many rows by its tasks, and the table of observations."""
