"""A real YARN for Spark: one resource manager and one node manager, from the jars of Hadoop's own test cluster.

They take 66 MB of downloads, once, into ``build/yarn``; the rest of Hadoop comes with pyspark.
"""

from pathlib import Path

from tests.lab.jars import REPOSITORY
from tests.lab.machine.java import find_java
from tests.lab.machine.maven import Artifact, Download, render_pom
from tests.lab.machine.ports import HOST, free_ports
from tests.lab.spark.archive import QUICK
from tests.lab.spark.standalone import SparkCluster, spark_home

HADOOP_VERSION = "3.5.0"  # of the client that comes with pyspark 4.2.0
BOUNCY_CASTLE_VERSION = "1.84"

_HOME = REPOSITORY / "build" / "yarn"
_SERVER = "org.apache.hadoop.yarn.server"
_ADDRESSES = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.webapp.address",
    "resourcemanager.webapp.address",
)


def yarn_jars() -> Path:
    """Return the folder of YARN's jars, fetching them first when they are not all there."""
    castle = [
        Artifact("org.bouncycastle", f"{name}-jdk18on", BOUNCY_CASTLE_VERSION, alone=True)
        for name in ("bcprov", "bcpkix", "bcutil")
    ]
    yarn = Artifact("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION, alone=True)
    wanted = Download(
        what=f"YARN {HADOOP_VERSION}",
        pom=render_pom([yarn, *castle]),
        libs=_HOME / "libs",
        home=_HOME,
        proof="hadoop-client-minicluster-*.jar",
    )
    return wanted.fetch()


class YarnCluster(SparkCluster):
    """Run YARN instead of Spark's own master and worker; ``submit`` takes ``mode="cluster"``, too."""

    def _start_daemons(self) -> None:
        self.master = "yarn"
        ports = free_ports(len(_ADDRESSES))
        self._conf.mkdir()
        (self._conf / "core-site.xml").write_text("<configuration/>")
        (self._conf / "yarn-site.xml").write_text(_render(self._yarn_settings(ports)))
        classpath = f"{self._conf}:{yarn_jars()}/*:{spark_home()}/jars/*"
        options = ("-Xmx300m", *QUICK.split(), "-cp", classpath)
        for name, program in (
            ("resource-manager", "resourcemanager.ResourceManager"),
            ("node-manager", "nodemanager.NodeManager"),
        ):
            self._run(name, find_java(), *options, f"{_SERVER}.{program}")
        page = f"http://{HOST}:{ports[-1]}/ws/v1/cluster/metrics"
        self._wait(page, lambda said: int(said["clusterMetrics"]["activeNodes"]) > 0)

    def _settings(self) -> dict[str, str]:
        overheads = {f"spark.{who}.memoryOverhead": "256m" for who in ("driver", "executor")}
        return {
            **super()._settings(),
            **overheads,
            "spark.executor.instances": "1",
            "spark.yarn.am.memory": "256m",
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",  # or 400 MB are copied for each program
            "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": str(self.python),
        }

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "HADOOP_CONF_DIR": str(self._conf)}

    @property
    def _conf(self) -> Path:
        return self.folder / "conf"

    def _yarn_settings(self, ports: list[int]) -> dict[str, str]:
        addresses = {f"yarn.{name}": f"{HOST}:{port}" for name, port in zip(_ADDRESSES, ports, strict=True)}
        return {
            **addresses,
            "yarn.resourcemanager.hostname": HOST,
            "yarn.nodemanager.hostname": HOST,
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": "3072",
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
        }


def _render(settings: dict[str, str]) -> str:
    rows = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    return f"<configuration>{''.join(rows)}</configuration>"
