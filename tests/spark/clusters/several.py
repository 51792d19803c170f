"""Several jobs in one session, as in a notebook: ``several.py '[["JOB", "ARGUMENT", …], …]'``, beside the application.

After what a job writes comes a line with its exit code.
"""

import json
import runpy
import sys
from pathlib import Path

from pyspark.sql import SparkSession

ENDED = "the job ended with exit code "

if __name__ == "__main__":
    run = runpy.run_path(str(Path(__file__).with_name("application.py")))["main"]
    session = SparkSession.builder.getOrCreate()
    for command in json.loads(sys.argv[1]):
        code = run(command)
        print(f"{ENDED}{code}", flush=True)
    session.stop()
