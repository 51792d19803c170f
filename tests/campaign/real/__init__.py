"""The real half of the campaign: real brokers and consumers, a real S3 server, and workers killed by SIGKILL."""
