"""Real Kafka for tests, demo and benchmark: brokers from Maven Central's jars, on free loopback ports, without docker.

::

    with KafkaCluster(version="4.1.0", brokers=3) as cluster:
        ...  # cluster.bootstrap, cluster.kill(2), cluster.restart(2), cluster.log_tail(2)

From a shell: ``python -m tests.lab up --version 4.1.0 --brokers 3``.
"""
