"""The whole job at size, step by step: ``python -m tests.bench.job`` (``make bench-job``)."""
