"""A Spark job that is submitted: where it runs, with its secrets in files of their own, for as long as it lasts."""

import json
from collections import UserList
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.operators.dag_params import spark_settings
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.spark_connection import Place, SparkJob, submit_hook, why_not_here
from airflow_kafka_groups.spark.private_files import write_secret_file
from tests.unit.operators.spark_program import Submitted

CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"
SECRET = "hunter2-s3cret"
NOT_FOR_JAVA = {
    "conn_type": "kafka_groups",
    "host": "b1:9092",
    "extra": {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
}


@pytest.fixture(autouse=True)
def _no_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submitted:
    login = {"login": "me", "password": SECRET}
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "read_only": True}
    kafka = {"conn_type": "kafka_groups", "host": "b1:9092", **login, "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return Submitted(tmp_path)


def run(submitted: Submitted, application: str, spark: dict[str, Any] | None = None, **arguments: Any) -> list[str]:
    """Run a job; return its words from the application on, of the last run."""
    given = {"spark_binary": str(submitted.program), **(spark or {})}
    KafkaSparkSubmitOperator(task_id="t", application=application, spark=given, **arguments).execute({})
    words = submitted.runs[-1].words
    return words[next(place for place, word in enumerate(words) if word.endswith((".py", ".jar"))) :]


def test_the_secret_is_in_a_file_of_its_own_while_the_job_runs(submitted: Submitted) -> None:
    words = run(submitted, "process_group_backlog", {"conf": {"a": "b"}}, application_args=["--group", "g"])
    (given,) = submitted.runs
    path = Path(given.after("--kafka-properties"))
    mode, content = given.files[str(path)]
    assert mode == 0o600
    assert f'password="{SECRET}"' in content.replace("\\", "")
    assert "kafka_groups.read_only=true" in content
    assert not path.parent.exists()
    assert SECRET not in str(given.words)
    own = {name: value for name, value in given.environment.items() if name != CONNECTION}
    assert SECRET not in str(own)
    assert words[0].endswith("spark/application.py")
    assert words[1:] == ["process_group_backlog", "--group", "g", "--kafka-properties", str(path)]
    assert "--conf" not in given.words
    assert "--load-spark-defaults" in given.words[: given.words.index(words[0])], "the file would replace them"
    assert given.properties == (
        "\n\na=b\nspark.ui.consoleProgress.update.interval=10000\n"
        "spark.ui.showConsoleProgress=true\nspark.yarn.maxAppAttempts=1\n"
    )


@pytest.mark.parametrize(
    ("kafka", "supported", "passed"),
    [("off", True, False), ("auto", True, True), ("auto", False, False), ("required", True, True)],
)
def test_a_job_that_can_do_without_kafka_gets_the_file_where_there_can_be_one(
    submitted: Submitted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kafka: str,
    supported: bool,
    passed: bool,
) -> None:
    if not supported:
        monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    assert ("--kafka-properties" in run(submitted, "judge_staleness", kafka=kafka)) is passed
    said = capsys.readouterr().out
    assert ("without access to Kafka" in said) is not supported
    assert SECRET not in said


def test_a_job_that_needs_kafka_is_not_started_without_it(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    with pytest.raises(ConfigurationError, match="Java's client always verifies"):
        run(submitted, "lag_report")
    assert submitted.runs == []


def test_the_file_goes_when_the_job_fails(submitted: Submitted) -> None:
    submitted.answer("no luck", code=1)
    with pytest.raises(Exception, match="Error code is: 1"):
        run(submitted, "/my/job.py")
    (given,) = submitted.runs
    assert "/my/job.py" in given.words
    assert not Path(given.after("--kafka-properties")).exists()


@pytest.mark.parametrize("by_connection", [True, False])
def test_a_driver_elsewhere_gets_the_file_shipped(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, by_connection: bool
) -> None:
    arguments = {"files": "/other"} if by_connection else {"files": "/other", "deploy_mode": "cluster"}
    extra = {"deploy-mode": "cluster"} if by_connection else {}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    words = run(submitted, "lag_report", arguments)
    (given,) = submitted.runs
    (shipped,) = (path for path in given.files if path.endswith("/kafka.properties"))
    assert given.after("--files") == f"/other,{shipped}"
    assert words[1:] == ["lag_report", "--kafka-properties", "kafka.properties"]


def test_executors_get_the_files_shipped_by_a_driver_here_too(submitted: Submitted) -> None:
    def write(folder: Path) -> dict[str, Path]:
        return {"--source-settings": write_secret_file(SECRET, folder / "source.json")}

    arguments = {"spark_binary": str(submitted.program), "files": "/other"}
    with SparkJob().prepared("translate_offsets", ["--a", "b"], arguments, write, for_executors=True) as submit:
        submit()
    (given,) = submitted.runs
    (shipped,) = (path for path in given.files if path.endswith("/source.json"))
    assert given.files[shipped] == [0o600, SECRET]
    assert given.after("--files") == f"/other,{shipped}"
    assert given.words[-5:] == ["translate_offsets", "--a", "b", "--source-settings", "source.json"]
    assert not Path(shipped).exists()
    assert SECRET not in str(given.words)


def test_yarn_starts_no_second_driver_unless_the_task_says_so(submitted: Submitted) -> None:
    for conf in (None, {"spark.yarn.maxAppAttempts": "3"}):
        run(submitted, "process_group_backlog", {"conf": conf})
    first, second = (given.properties for given in submitted.runs)
    assert "spark.yarn.maxAppAttempts=1" in first
    assert "spark.yarn.maxAppAttempts=3" in second


def test_a_job_that_does_not_exist_is_told_before_anything_is_written(submitted: Submitted) -> None:
    with pytest.raises(ConfigurationError, match="is neither a job of this package nor a path"):
        run(submitted, "no_such_job")
    assert submitted.runs == []


def test_the_arguments_of_a_job_are_words_and_never_the_letters_of_one(submitted: Submitted) -> None:
    lazy = UserList(["--days", 3, "/a"])  # no list, as what a mapped task returned is none
    good: tuple[Any, ...] = (["--days", 3, Path("/a")], '["--days", "3", "/a"]', ("--days", "3", "/a"), lazy)
    for words in good:
        assert run(submitted, "roll_up", application_args=words, kafka="off")[1:] == ["roll_up", "--days", "3", "/a"]
    operator = KafkaSparkSubmitOperator
    native = operator(task_id="t", application="/my/job.jar", application_args=["--full", "{{ full }}"], kafka="off")
    native.spark = {"spark_binary": str(submitted.program)}
    native.application_args = ["--full", True]  # as a DAG renders it that renders natively, also the plain word True
    native.execute({})
    assert submitted.runs[-1].words[-2:] == ["--full", "True"]
    refused: tuple[Any, ...] = ("--days 3", "['--days']", {"--days": "3"}, ["--days", None], ["--days", ["3"]], None, 3)
    for bad in refused:
        with pytest.raises(ConfigurationError, match=r"application_args.*(must be a list|every item must be)"):
            KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=bad)


# A Spark job on a cluster: its secrets stay off the command line, and its task lasts as long as the job.


OnMaster = Callable[..., None]
OF_JOB = "s3cr3t-of-the-job"
ENV = {"AWS_SECRET_ACCESS_KEY": OF_JOB, "HADOOP_USER_NAME": "ann"}


@pytest.fixture
def on_master(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> OnMaster:
    """Return a function that runs a job without Kafka on another master."""

    def run_on(master: str, **spark: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
        run(submitted, "/my/job.jar", spark, kafka="off")

    return run_on


@pytest.mark.parametrize(
    ("master", "name"), [("yarn", "spark.yarn.appMasterEnv"), ("k8s://https://k:6443", "spark.kubernetes.driverEnv")]
)
def test_variables_of_a_driver_elsewhere_are_not_on_the_command_line(
    submitted: Submitted, on_master: OnMaster, monkeypatch: pytest.MonkeyPatch, master: str, name: str
) -> None:
    """Airflow's hook passes them as ``--conf``, which every user of the machine can read."""
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.kube_client", object(), raising=False)
    submitted.answer("Exit code: 0")
    on_master(master, env_vars=ENV)
    (given,) = submitted.runs
    assert OF_JOB not in str(given.words)
    assert f"{name}.AWS_SECRET_ACCESS_KEY={OF_JOB}\n{name}.HADOOP_USER_NAME=ann\n" in given.properties
    assert (given.environment.get("HADOOP_USER_NAME") == "ann") is (master == "yarn"), "as with Airflow's own operator"


def test_variables_of_a_driver_here_are_in_its_environment_only(submitted: Submitted, on_master: OnMaster) -> None:
    on_master("local[1]", env_vars=ENV)
    (given,) = submitted.runs
    assert OF_JOB not in str(given.words) + given.properties
    assert given.environment["AWS_SECRET_ACCESS_KEY"] == OF_JOB


@pytest.mark.parametrize("status", ["FINISHED", "FAILED"])
def test_a_job_of_a_standalone_cluster_is_waited_for(
    submitted: Submitted, on_master: OnMaster, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Airflow's hook returns when the driver is submitted; the waiting is in Airflow's operator, which is not ours."""
    polled: list[str] = []

    def track(self: Any) -> None:
        polled.append(self._driver_id)
        self._driver_status = status

    monkeypatch.setattr(SparkSubmitHook, "_start_driver_status_tracking", track)
    submitted.answer("Driver successfully submitted as driver-20261123000000-0001")
    if status == "FINISHED":
        on_master("spark://m:7077", deploy_mode="cluster")
    else:
        with pytest.raises(Exception, match="driver-20261123000000-0001 ended as FAILED"):
            on_master("spark://m:7077", deploy_mode="cluster")
    assert polled == ["driver-20261123000000-0001"]


@pytest.mark.parametrize("name", ["yarn_track_via_rm_api", "track_driver_via_k8s_api"])
def test_a_tracking_that_only_airflows_operator_has_is_refused(
    submitted: Submitted, on_master: OnMaster, name: str
) -> None:
    """With it, the hook returns at once, and the task would be a success before the job has begun."""
    with pytest.raises(ConfigurationError, match=f"spark, {name} .*spark-submit itself waits"):
        on_master("yarn", **{name: True})
    assert submitted.runs == []


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        ({"conf": "spark.ui.enabled=false"}, "spark, conf: must be a mapping"),
        ({"env_vars": ["A=b"]}, "spark, env_vars: must be a mapping"),
    ],
)
def test_an_argument_of_spark_that_cannot_be_is_named_and_not_tried_again(
    on_master: OnMaster, spark: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{why}"):
        on_master("local[1]", **spark)


def test_properties_may_be_json_as_other_mappings(submitted: Submitted, on_master: OnMaster) -> None:
    on_master("local[1]", conf='{"spark.app.own": "7"}', env_vars=None)
    assert "spark.app.own=7" in submitted.runs[0].properties


def test_a_task_s_page_shows_no_secret_of_spark() -> None:
    """Airflow masks values by their names, of which it knows neither Azure's nor JAAS."""
    conf = {
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "s3cr3t-of-azure",
        "spark.kafka.sasl.jaas.config": "s3cr3t-of-jaas",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.Provider",
    }
    spark = {"conf": conf, "env_vars": {"AZURE_ACCOUNT_KEY": "s3cr3t-of-env", "HOME": "/home/ann"}}
    shown = str(_serialize_rendered_fields(KafkaSparkSubmitOperator(task_id="t", application="a.py", spark=spark)))
    assert "s3cr3t" not in shown
    assert "org.apache.Provider" in shown
    assert "/home/ann" in shown


def test_a_task_that_is_killed_before_it_submits_starts_no_job(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow kills the worker's process soon after: nobody would follow the job, nor remove its files."""
    spark = {"spark_binary": str(submitted.program)}
    task = KafkaSparkSubmitOperator(task_id="t", application="/my/job.jar", kafka="off", spark=spark)
    monkeypatch.setattr(KafkaSparkSubmitOperator, "_properties", lambda self, folder: self.on_kill() or {})
    with pytest.raises(KafkaGroupsError, match="the task was killed before the job was submitted"):
        task.execute({})
    assert submitted.runs == []


class Started:
    """A spark-submit that ends when it is killed, or by itself."""

    pid, stdout = 2**31 - 1, ("line",)  # the id of no process

    def __init__(self, ended: list[int]) -> None:
        self._ended = ended

    def poll(self) -> int | None:
        return self._ended[0] if self._ended else None

    def kill(self) -> None:
        self._ended.append(-9)

    def wait(self) -> int:
        return self._ended[0] if self._ended else 0


@pytest.mark.safety
def test_a_task_that_is_killed_while_it_starts_spark_submit_ends_the_job(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow asks once: a job that is started in this moment would go on beside the retry."""
    spark = {"spark_binary": str(submitted.program)}
    task = KafkaSparkSubmitOperator(task_id="t", application="/my/job.jar", kafka="off", spark=spark)
    ended: list[int] = []

    def start(*_: Any, **__: Any) -> Started:
        task.on_kill()
        return Started(ended)

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", start)
    folder = "airflow_kafka_groups.operators.support.spark_connection.private_folder"
    monkeypatch.setattr(folder, lambda: nullcontext(submitted.program.parent))
    with pytest.raises(Exception, match="Error code is: -9"):
        task.execute({})
    assert ended == [-9]


@pytest.mark.safety
def test_a_kill_after_the_job_s_end_ends_no_process_that_has_its_id_by_now(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives the id of a process that has ended to the next one, whose children are somebody else's."""
    asked: list[int] = []

    class Stranger:
        def __init__(self, pid: int) -> None:
            asked.append(pid)

        def children(self, recursive: bool = False) -> list[Any]:
            return []

    monkeypatch.setattr("psutil.Process", Stranger)
    hook = submit_hook({"spark_binary": str(submitted.program)}, [])
    ended: list[int] = []
    hook._submit_sp = Started(ended)
    hook.on_kill()
    assert (asked, ended) == ([Started.pid], [-9])
    hook.on_kill()
    assert (asked, ended) == ([Started.pid], [-9]), "it has ended"


# Where a job runs: by its connection, by YARN's configuration, or on this machine.


BAR = "[Stage 3:=======================>                       (120 + 2) / 200]"


def master(arguments: dict[str, str | None]) -> str:
    hook: SparkSubmitHook = submit_hook(arguments, ["--group", "g"])
    command = hook._build_spark_submit_command("job.py")
    assert command[-3:] == ["job.py", "--group", "g"]
    return str(command[command.index("--master") + 1])


def test_without_a_connection_the_job_runs_on_this_machine_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert master({}) == "local[*]"
    assert "no Spark connection 'spark_default'" in caplog.text
    assert master({"conn_id": "nowhere"}) == "local[*]"
    nowhere = Place({"conn_id": "nowhere"})
    assert (nowhere.extra, nowhere.deploy_mode) == ({}, "client")


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_where_yarn_is_configured_airflow_s_default_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/etc/hadoop")
    assert master({}) == "yarn"


def test_a_connection_decides(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    extra = {"deploy-mode": "cluster"}
    spark = {"conn_type": "spark", "host": "spark://m", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps(spark))
    assert master({"conn_id": "mine"}) == "spark://m:7077"
    assert Place({"conn_id": "mine"}).deploy_mode == "cluster"
    assert Place({"conn_id": "mine", "deploy_mode": "client"}).deploy_mode == "client"
    assert "no Spark connection" not in caplog.text


@pytest.mark.parametrize(("host", "quick"), [(None, True), ("local[4]", True), ("spark://m", False), ("yarn", False)])
def test_only_a_driver_that_does_all_the_work_here_starts_quickly(
    host: str | None, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host is not None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dworker=1")
    given = {"MINE": "1"}
    environment = submit_hook({"env_vars": given}, [])._env_vars or {}
    assert environment.get("SPARK_SUBMIT_OPTS") == ("-XX:TieredStopAtLevel=1 -Dworker=1" if quick else None)
    assert given == {"MINE": "1"}
    if quick:
        mine = submit_hook({"env_vars": {"SPARK_SUBMIT_OPTS": "-Dtask=1"}}, [])._env_vars
        assert mine == {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -Dtask=1"}


@pytest.mark.parametrize(
    ("home", "why"), [("/nowhere", "JAVA_HOME is '/nowhere', without a java in it"), (None, "PATH")]
)
def test_a_machine_without_java_is_named_before_spark_is_started(
    home: str | None, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    arguments = {"env_vars": {"JAVA_HOME": home}} if home else {}
    with pytest.raises(ConfigurationError, match=rf"Spark needs Java 17 or newer on this machine.*{why}"):
        submit_hook(arguments, [])
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m"}')
    assert submit_hook(arguments, []), "elsewhere, Java is not this machine's"


def test_a_bar_of_the_stages_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    hook: SparkSubmitHook = submit_hook({}, [])
    capsys.readouterr()
    # Spark ends a bar with a carriage return, and overwrites it with blanks.
    hook._process_spark_submit_log(iter(["began\n", "\n", f"{BAR}\n", "\n", f"{' ' * 79}\n", "ended\n"]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert BAR in lines[1]


def test_without_spark_on_purpose_only_jobs_that_need_it_use_the_default_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"spark_conn_id": null}')
    arguments = spark_settings()
    assert why_not_here(arguments) == "there is to be none: spark_conn_id is null"
    spark = {"conn_type": "spark", "host": "spark://m", "port": 7077}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    assert why_not_here(arguments) is not None
    assert master({"conn_id": None}) == "spark://m:7077"
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS")
    assert why_not_here(spark_settings()) is None
