"""What the server that workers are forked from does once, so that a worker takes hundredths of a second to start."""

from functools import lru_cache
from importlib import import_module
from typing import Any

for name in ("airflow.sdk", "aiobotocore.session", "pandas", "pyarrow.parquet", "s3fs", "tests.campaign.real.worker"):
    import_module(name)


def read_models_once() -> None:
    """Read and keep the description of S3, which is megabytes of JSON; each client would read it again."""
    loader = import_module("botocore.loaders").JSONFileLoader
    read = loader.load_file
    load = lru_cache(maxsize=None)(lambda path: read(loader(), path))

    def load_file(self: Any, file_path: str) -> Any:
        return load(file_path)

    loader.load_file = load_file
    import_module("botocore.session").get_session().create_client("s3", region_name="us-east-1")


read_models_once()
