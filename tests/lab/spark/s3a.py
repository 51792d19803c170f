"""Spark's access to the lab's S3 server by Hadoop's ``s3a``."""

from tests.lab.servers.object_store import ObjectStore
from tests.lab.spark.jars import s3a_jars

FEWER_REQUESTS = {"input.stream.type": "classic", "performance.flags": "delete,mkdir", "audit.enabled": "false"}
"""What docs/spark.md advises."""


def settings_of(store: ObjectStore) -> dict[str, str]:
    """Return the properties of Spark by which ``s3a://`` leads to a server."""
    named = {
        "endpoint": store.endpoint,
        "endpoint.region": "us-east-1",
        "access.key": "lab",
        "secret.key": "lab",
        "path.style.access": "true",
        **FEWER_REQUESTS,
    }
    jars = ",".join(str(jar) for jar in s3a_jars())
    return {"spark.jars": jars, **{f"spark.hadoop.fs.s3a.{name}": value for name, value in named.items()}}
