"""One small module for each admin API: what to send, and what every error code of the answer means."""
