"""An archive of the classes that Spark's JVMs load, so that drivers and executors do not read and check them each time.

``python -m tests.lab.spark.archive`` makes it: ``build/spark-classes.jsa``. A JVM that cannot use it, because Java, the
jars or the class path are others, starts without it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.jars import REPOSITORY
from tests.lab.machine.ports import HOST
from tests.lab.machine.process import QUIET_ARCHIVE

ARCHIVE = REPOSITORY / "build" / "spark-classes.jsa"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends within a minute: no time for the optimising compiler, no threads for the collector."""
CONF = "conf:"
"""The name of a test's ``SPARK_CONF_DIR``. Of a folder with this name, the class path has the part before the colon.

The folder comes first on the class path, and a JVM uses no archive where a folder is there that the archive lacks."""
TIMEOUT_S = 600.0
# What most jobs do: rows from Python, Parquet there and back, an aggregation and a join, rows to Python.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
made = spark.createDataFrame([(number, str(number)) for number in range(10)], "a int, b string")
made.write.parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1])
read.groupBy("b").agg(F.max("a")).join(made, "b").collect()
spark.stop()
"""


def quick_options() -> str:
    """Return the options of a JVM of Spark's that ends soon: with the archive, where there is one."""
    archived = (f"-XX:SharedArchiveFile={ARCHIVE}", *QUIET_ARCHIVE) if ARCHIVE.exists() else ()
    return " ".join((QUICK, *archived))


def make(submit: Path) -> Path:
    """Return the archive. Where there is none, a driver writes it when it ends.

    :param submit: the program ``spark-submit``.

    Raises LabError when the driver fails, or writes none.
    """
    if not ARCHIVE.exists():
        ARCHIVE.parent.mkdir(exist_ok=True)
        unfinished = ARCHIVE.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        options = f"{QUICK} -XX:ArchiveClassesAtExit={unfinished} {' '.join(QUIET_ARCHIVE)}"
        confs = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": options}
        named = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
        with tempfile.TemporaryDirectory(prefix="akg-spark-") as folder:
            program = Path(folder, "program.py")
            program.write_text(_PROGRAM)
            done = subprocess.run(
                [str(submit), "--master", "local[1]", *named, str(program), str(Path(folder, "table"))],
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        if done.returncode != 0 or not unfinished.exists():
            raise LabError(f"Spark wrote no archive of its classes. It logged:\n{done.stderr[-4000:]}")
        unfinished.replace(ARCHIVE)
    return ARCHIVE


if __name__ == "__main__":
    try:
        print(make(Path(sys.executable).with_name("spark-submit")))
    except (LabError, OSError, subprocess.TimeoutExpired) as exc:
        print(f"Spark starts without an archive of its classes: {exc}", file=sys.stderr)  # more slowly, but it does
