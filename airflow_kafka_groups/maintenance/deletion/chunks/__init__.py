"""Delete in chunks: each is read, judged, announced in the journal, deleted and recorded."""
