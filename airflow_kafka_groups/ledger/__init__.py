"""What is remembered about a Kafka cluster: runs, outcomes, approvals, notices, changes."""
