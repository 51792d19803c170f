"""Pages and metrics: facts in, HTML or OpenMetrics out."""
