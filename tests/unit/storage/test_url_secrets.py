"""What is a password or a token in a path or URL, and what only looks like one."""

import pytest

from airflow_kafka_groups.storage.url_secrets import has_secret


@pytest.mark.parametrize(
    "text",
    [
        *("sftp://me:pa[ss@host/x", "s3://AKIA:7/x@bucket", "sftp:/me:x@host/x", "me:x@host:/x"),
        *("s3://AKIA%3Ax%2Fy@bucket/f", "abfs://me%3ax@container/f", "simplecache::gs://me%3Ax@bucket/f"),
        *("s3://AKIA:x%2Fy%40bucket/f", "sftp://me:12%2Fx@host/f", "sftp://me:x%40host/f"),
        *("s3:///AKIA:x@bucket/f", "S3A:////AKIA:x/y@bucket", "file://me:x@host/data", "webhdfs://h/f?delegation=x"),
        *(
            "abfss://c@acct/f?sv=1&sig=x",
            "s3://b/f?X-Amz-Signature=x",
            "https://h/f#access_token=x",
            "az://c/f?sas_token=x",
        ),
        *(
            "https://h/policy.yaml?api_key=x",
            "https://h/f?v=1&apikey=x",
            "https://h/f?X-Api-Key=x",
            "https://h/f?key=x",
        ),
        "https://me:7,x!y/z@h/f",
        *("https://h/f.json?auth=x", "https://h/f?v=1&auth=x"),
        *("https://h/f?access-key=x", "https://h/f?user=me&pwd=x", "https://h/f?jwt=x", "https://h/f?tok%65n=x"),
    ],
)
def test_a_password_or_token_is_found(text: str) -> None:
    assert has_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "/data/a:b@c",
        "file:///data/me:x@y?sig=1",
        "s3://conn@bucket/x",
        "s3://conn@bucket/a%3Ab",
        "s3://bucket/a%40b%3Ac",
        "nostore://host:9000/a%40b",
        "nostore://host:9000/a@b",
        "s3://b/f?design=1",
        "s3://b/f?keys=1&monkey=2&author=me&bypass=1",
        "jdbc:hive2://h:10000/default;auth=noSasl",
        "jdbc:hive2://h:10000/default;principal=hive/_HOST@EXAMPLE.COM;auth=kerberos",
        "jdbc:hive2://zk1:2181,zk2:2181,zk3/;serviceDiscoveryMode=zooKeeper;principal=hive/_HOST@EXAMPLE.COM",
        "s3://b/a&b/api_key_topics/key=1",
        "s3://b/R&D/token-service/run=1",
        "s3://b/team#1/secrets/x/snapshot_id=1",
        "file:/data/team@prod/policy.yaml",
        "x",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert not has_secret(text)
