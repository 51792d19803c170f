"""The unread records of groups: what to read, what was processed, whether it is committed. Needs no Spark."""
