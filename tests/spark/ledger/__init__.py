"""What jobs find on storage and leave there: snapshots, tables, many clusters."""
