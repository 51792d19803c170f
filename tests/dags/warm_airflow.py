"""What a forked process need not build again: Airflow's API for tasks, which takes ten seconds of processor time.

A forkserver imports this module before it forks.
"""

from airflow.sdk.execution_time.supervisor import in_process_api_server

from tests.dags import killed_verb

__all__ = ["killed_verb"]

in_process_api_server().app._cadwyn_initialize()  # what its first request does
