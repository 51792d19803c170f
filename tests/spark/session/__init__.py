"""What all jobs share: their session, their start, their security, where they write."""
