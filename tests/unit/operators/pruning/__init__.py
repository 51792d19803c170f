"""What pruning finds and what it keeps."""
