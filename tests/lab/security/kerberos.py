"""A real Kerberos: a key distribution centre (Apache Kerby, through Hadoop's MiniKdc), and brokers that log in by it.

::

    with Kerberos("ann") as kerberos, kerberos.cluster() as cluster:
        ...  # at cluster.sasl_bootstrap (SASL_PLAINTEXT, GSSAPI), as kerberos.principal("ann") with kerberos.keytab

Its jars are 4 MB of downloads, once, into ``build/kdc``.
"""

from pathlib import Path
from typing import Any, Self

from tests.lab.cluster import KafkaCluster
from tests.lab.jars import REPOSITORY
from tests.lab.machine.maven import Artifact, Download, render_pom
from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.process import JavaProgram, Programs
from tests.lab.machine.service import Service

REALM = "LAB.TEST"
START_TIMEOUT_S = 60.0
_HOME = REPOSITORY / "build" / "kdc"
_SERVICE = ("kafka/localhost", f"kafka/{HOST}")  # Java asks for the address's name where it has one


def kdc_jars() -> Path:
    """Return the folder of the jars, fetching them first when they are not all there."""
    pom = render_pom([Artifact("org.apache.hadoop", "hadoop-minikdc", "3.5.0")])
    return Download(what="a KDC", pom=pom, libs=_HOME / "libs", home=_HOME, proof="hadoop-minikdc-*.jar").fetch()


class Kerberos(Service):
    """Run a key distribution centre that knows some users, until ``stop()`` or the end of the ``with`` block.

    :param users: their names, without the realm. One keytab has the keys of them all, and of the brokers.
    """

    def __init__(self, *users: str) -> None:
        self._users = users
        self._programs = Programs("kdc")
        self.folder = self._programs.folder

    @property
    def keytab(self) -> Path:
        return self.folder / "lab.keytab"

    @property
    def config(self) -> Path:
        return self.folder / "krb5.conf"

    @property
    def java_option(self) -> str:
        """Return the option with which a JVM asks this centre."""
        return f"-Djava.security.krb5.conf={self.config}"

    def principal(self, user: str) -> str:
        return f"{user}@{REALM}"

    def start(self) -> Self:
        """Start the centre and wait for its keytab."""
        settings = {
            "org.name": "LAB",
            "org.domain": "TEST",
            "kdc.bind.address": HOST,
            "kdc.port": free_ports(1)[0],
            "instance": "lab",
            "transport": "TCP",
            "max.ticket.lifetime": 86400000,
            "max.renewable.lifetime": 604800000,
            "debug": "false",
        }
        given = self.folder / "kdc.properties"
        given.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        program = JavaProgram(
            libs=kdc_jars(),
            main_class="org.apache.hadoop.minikdc.MiniKdc",
            arguments=(str(self.folder), str(given), str(self.keytab), *self._users, *_SERVICE),
            options=("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        )
        kdc = self._programs.start("kdc", program.command())
        # The keytab is written with all keys in it, and then the program says that it waits.
        kdc.wait_until(lambda: "Standalone MiniKdc Running" in kdc.log_tail(), START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        """Kill the centre and remove its folder. May be called twice."""
        self._programs.stop()

    def cluster(self, **more: Any) -> KafkaCluster:
        """Build a cluster, not started yet, whose login listener takes Kerberos and nothing else."""
        jaas = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keytab}" principal="{self.principal(_SERVICE[0])}";'
        )
        config = {
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.login.gssapi.sasl.jaas.config": jaas,
            "listener.name.login.sasl.kerberos.service.name": "kafka",
            **more.pop("config", {}),
        }
        options = (self.java_option, *more.pop("java_options", ()))
        return KafkaCluster(brokers=1, sasl_users={"nobody": ""}, config=config, java_options=options, **more)
