"""A session: where it would run, what it needs, and its settings, which are put back."""
