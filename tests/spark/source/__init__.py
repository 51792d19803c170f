"""The data source ``kafka_groups``, in batches and as a stream."""
