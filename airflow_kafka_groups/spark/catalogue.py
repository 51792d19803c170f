"""A job's rows, or observations, in a table of the session's catalogue (``--table catalog.database.name``).

It is partitioned by two more columns: whose rows they are, and which snapshot, run or archive they are of. A run
replaces its own partitions and no others. Columns go by their names: those of a later version are added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark import options
from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, read_stored
from airflow_kafka_groups.spark.session import PARTITION_BY_PARTITION, SPARK_ERRORS, settings_of
from airflow_kafka_groups.storage.formats import TABLE_FORMAT

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore

_FORMAT = "kafka_groups.format"
_REMEDIES = (
    (
        ("LOCATION_ALREADY_EXISTS", "NON_EMPTY_LOCATION"),  # the latter of Delta, which says that there is no table
        "Keep that folder, it has the rows of earlier runs: without a metastore "
        "(spark.sql.catalogImplementation=hive), Spark forgets its tables when a session ends. Set one up, or name "
        "another catalogue. If another job has just created the table, run this one again",
    ),
    (
        ("REQUIRES_SINGLE_PART_NAMESPACE", "catalog plugin class", "CANNOT_LOAD_CATALOG"),
        "This session has no such catalogue: submit with its settings (spark.sql.catalog.NAME=…) and its jars "
        "(--packages), or name another one",
    ),
    (("",), "Create its database, check the rights there, or name another catalogue"),
)
"""Parts of Spark's messages, and what to do; the first that fits."""

_LASTING = ("SCHEMA_NOT_FOUND", *_REMEDIES[1][0])
"""Parts of the messages of errors that the next try would meet again."""

_NOT_HIVES = {"spark.sql.legacy.createHiveTableByDefault": "false"}
"""A table of Hive's own is text by default, in which a line break ends a row, and these statements do not write it."""


class CatalogueTable:
    """A table of the session's catalogue, created if it does not exist.

    :param columns: the job's. Those that may be null are added to a table that lacks them.
    :param keys: the columns that name whose rows they are, and which ones.

    Raises ``ArgumentError`` if the table cannot be created, lacks another column, or has one of another type.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        columns: StructType,
        keys: tuple[str, str] = ("cluster", "snapshot_id"),
        option: str = options.TABLE,
    ) -> None:
        self.name, self._spark, self._keys = name, spark, keys
        self._quoted = ".".join(f"`{part}`" for part in name.split("."))
        fields = [*(StructField(key, StringType()) for key in keys), *columns]
        wanted = {field.name: field.dataType.simpleString() for field in fields}
        # In a session with spark.sql.timestampType=TIMESTAMP_NTZ, "timestamp" would be another type than the rows have.
        kinds = {column: "timestamp_ltz" if kind == "timestamp" else kind for column, kind in wanted.items()}
        described = {column: f"`{column}` {kind}" for column, kind in kinds.items()}
        try:
            self._create(", ".join(described.values()))
            schema = self._schema()
            partitioned_by = self._partitioned_by()
            properties = spark.sql(f"SHOW TBLPROPERTIES {self._quoted}").collect()
        except SPARK_ERRORS as exc:
            remedy = next(what for marks, what in _REMEDIES if any(mark in str(exc) for mark in marks))
            error = ArgumentError(option, name, f"it cannot be created or read ({first_line(exc)}). {remedy}")
            raise error if any(mark in str(exc) for mark in _LASTING) else JobError(str(error)) from exc
        found = {field.name: field.dataType.simpleString() for field in schema}
        lacking = [field.name for field in fields if field.name not in found]
        version = {row["key"]: row["value"] for row in properties}.get(_FORMAT, str(TABLE_FORMAT))
        if version != str(TABLE_FORMAT):
            remedy = f"its columns are of version {version}, and this job writes {TABLE_FORMAT}. Name another table"
            raise ArgumentError(option, name, remedy)
        for field in fields:
            column, kind = field.name, kinds[field.name]
            if column in found and found[column] != wanted[column]:
                kept = ".".join(name.split(".")[-2:])
                remedy = (
                    f"its column {column} is {found[column]}, not {wanted[column]}. Run ALTER TABLE {name} ALTER "
                    f"COLUMN {column} TYPE {kind} or, if its format cannot, ALTER TABLE {name} RENAME TO "
                    f"{kept}_before: the job then creates a new one"
                )
                raise ArgumentError(option, name, remedy)
            if column in lacking and not field.nullable:
                remedy = f"its column {column} is missing, not {wanted[column]}. Name a table that the job may create"
                raise ArgumentError(option, name, remedy)
        if partitioned_by != {*keys}:
            by = " and ".join(sorted(partitioned_by)) or "nothing"
            remedy = f"it is partitioned by {by}, so a run would replace other runs' rows, or leave its own of before"
            raise ArgumentError(option, name, f"{remedy}. Create it with PARTITIONED BY ({', '.join(keys)})")
        if lacking:
            self._add(lacking, ", ".join(described[column] for column in lacking))
            schema = self._schema()
        self._columns = {field.name: field.dataType for field in schema}

    def _schema(self) -> StructType:
        self._spark.catalog.refreshTable(self._quoted)  # another program may have written since the session read it
        return self._spark.table(self._quoted).schema

    def _add(self, columns: Collection[str], described: str) -> None:
        try:
            self._spark.sql(f"ALTER TABLE {self._quoted} ADD COLUMNS ({described})")
        except SPARK_ERRORS as exc:
            if not {*columns} <= {*self._schema().names}:  # another job was not first
                raise JobError(f"the table {self.name} cannot get {', '.join(columns)}: {first_line(exc)}") from exc

    def _create(self, columns: str) -> None:
        try:
            with settings_of(self._spark, _NOT_HIVES):
                self._spark.sql(
                    f"CREATE TABLE IF NOT EXISTS {self._quoted} ({columns}) PARTITIONED BY ({', '.join(self._keys)}) "
                    f"TBLPROPERTIES ('{_FORMAT}' = '{TABLE_FORMAT}')"
                )
        except SPARK_ERRORS:  # of Delta, also if another job, such as another cluster's, was first
            if not self._spark.catalog.tableExists(self._quoted):
                raise

    def _filled(self, rows: DataFrame) -> DataFrame:
        return rows.select(
            *(
                F.col(name) if name in rows.columns else F.lit(None).cast(kind).alias(name)
                for name, kind in self._columns.items()
            )
        )

    def _partitioned_by(self) -> set[str]:
        """Return what the table is partitioned by: columns, and functions of columns such as Iceberg's buckets."""
        described = self._spark.sql(f"DESCRIBE TABLE {self._quoted}").collect()
        if parts := {row["data_type"] for row in described if row["col_name"].startswith("Part ")}:
            return parts  # some are functions, which the list of columns leaves out, or fails for
        return {column.name for column in self._spark.catalog.listColumns(self._quoted) if column.isPartition}

    def counts(self, owner: str) -> dict[str, int]:
        """Return the numbers of rows of an owner, the value of the first key, by the second one."""
        return {name: count for (_, name), count in self._counts(F.col(self._keys[0]) == owner).items()}

    def _counts(self, chosen: Column) -> dict[tuple[str, str], int]:
        counted = self._spark.table(self._quoted).where(chosen).groupBy(*self._keys).count().collect()
        return {(owner, name): count for owner, name, count in counted}

    def replace(self, owner: str, rows: DataFrame, expected: Mapping[str, int]) -> None:
        """Replace partitions of one owner, as ``replace_all`` does.

        :param rows: rows of all partitions to replace; with one partition, they need not have the second key.
        :param expected: the number of rows by the second key.
        """
        first, second = self._keys
        keyed = rows.withColumn(first, F.lit(owner))
        if len(expected) == 1:
            keyed = keyed.withColumn(second, F.lit(next(iter(expected))))
        self.replace_all(keyed, {(owner, name): count for name, count in expected.items()})

    def replace_all(self, rows: DataFrame, expected: Mapping[tuple[str, str], int]) -> None:
        """Replace partitions of several owners in one write, and verify the numbers of their rows.

        :param expected: the number of rows by both keys.

        Raises ``JobError`` if the table cannot be written, or has another number of rows afterwards.
        """
        chosen, filled = F.lit(True), self._filled(rows)
        for key, values in zip(self._keys, zip(*expected, strict=True), strict=True):
            chosen &= F.col(key).isin(set(values))
        try:
            with settings_of(self._spark, PARTITION_BY_PARTITION):
                # Not by insertInto(), which finds no table of spark_catalog while another catalogue is the default.
                text = f"INSERT OVERWRITE TABLE {self._quoted} SELECT * FROM {{rows}}"  # noqa: S608 - checked above
                self._spark.sql(text, rows=filled)
            found = self._counts(chosen)
        except SPARK_ERRORS as exc:
            raise JobError(f"the table {self.name} cannot be written: {first_line(exc)}") from exc
        for partition, count in expected.items():
            if found.get(partition, 0) != count:
                keys = " and ".join(f"{key} is {value}" for key, value in zip(self._keys, partition, strict=True))
                raise JobError(
                    f"the table {self.name} has {found.get(partition, 0)} rows where {keys}, and {count} were written: "
                    "another program writes there. Run the job again"
                )


def add_observations(spark: SparkSession, store: ObservationStore, table: CatalogueTable, cluster: str) -> None:
    """Write the observations that a table lacks, such as those of a killed run, and those that were made again.

    The latter are of other rows. Those of an incomplete snapshot, or of named groups, stay out, also if it is judged
    itself: groups that it lacks would seem to be gone, and no column tells why.
    """
    there = table.counts(cluster)
    complete = {
        each.snapshot_id: store.stored[each.snapshot_id] for each in store.history.manifests if not each.of_named_groups
    }
    again = {name for name, each in complete.items() if name in store.reduced and each.groups}
    lacking = {name: each for name, each in complete.items() if there.get(name, 0) != each.groups or name in again}
    sizes = {name: each.groups for name, each in lacking.items()}
    if sizes:
        files = [path for each in lacking.values() for path in store.paths_of(each)]
        nothing = spark.createDataFrame([], OBSERVATION_SCHEMA)
        rows = read_stored(spark, OBSERVATION_SCHEMA).parquet(*files) if files else nothing
        table.replace(cluster, rows.withColumn("snapshot_id", F.col("run_id")), sizes)
