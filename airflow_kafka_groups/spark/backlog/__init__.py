"""The unread records of groups, read with Spark: archived, or processed and written."""
