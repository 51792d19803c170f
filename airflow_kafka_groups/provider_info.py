"""What Airflow discovers about this provider. Standard library only: every Airflow command loads it."""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups import __version__

_PACKAGE = "airflow_kafka_groups"
_INTEGRATION = "Kafka consumer groups"
_OPERATORS = (
    "approval backup deletion fleet groups notices offset_changes offsets plan pruning report spark unread_range"
)
_MODULES = {
    "hooks": "kafka_groups",
    "operators": _OPERATORS,
    "sensors": "groups offsets",
    "triggers": "events poll",
}


def get_provider_info() -> dict[str, Any]:
    """Describe the provider: its connection form, hook, operators and sensors."""
    return {
        "package-name": "airflow-kafka-groups",
        "name": _INTEGRATION,
        "description": "Find, judge, back up and remove stale Kafka consumer groups, in batches and safely.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://kafka.apache.org/documentation/",
                "tags": ["software"],
            }
        ],
        **{
            kind: [
                {
                    "integration-name": _INTEGRATION,
                    "python-modules": [f"{_PACKAGE}.{kind}.{of}" for of in names.split()],
                }
            ]
            for kind, names in _MODULES.items()
        },
        "cli": [f"{_PACKAGE}.cli.main.get_cli_commands"],
        "extra-links": [f"{_PACKAGE}.hooks.links.CleanupReportLink"],
        "config": {
            "kafka_groups": {
                "description": "Settings of the provider for Kafka consumer groups. All but report_tab are floors: "
                "limits of every clean-up, which no DAG, form or run can exceed.",
                "options": _OPTIONS,
            }
        },
        "connection-types": [
            {
                "connection-type": "kafka_groups",
                "hook-class-name": f"{_PACKAGE}.hooks.kafka_groups.KafkaGroupsHook",
                "hook-name": _INTEGRATION,
                "ui-field-behaviour": _STANDARD_FIELDS,
                "conn-fields": _EXTRA_FIELDS,
            }
        ],
    }


def _option(kind: str, description: str, example: str | None = None, default: str | None = None) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": kind, "example": example, "default": default}


_BY_NAME = "If it is set, groups cannot be deleted by name unless named_deletions allows it."
_OPTIONS = {
    "report_tab": _option(
        "boolean",
        "Show the report of a clean-up as a tab of its DAG run, and link to it from the tasks. Read by the API server "
        "and the workers; restart them after a change.",
        default="True",
    ),
    "min_idle_seconds": _option(
        "string",
        "The shortest idle time of a group that is deleted, such as 7d; a number is in seconds. A plan with a shorter "
        f"one gets this one. {_BY_NAME}",
        "7d",
    ),
    "max_groups": _option("integer", "The most groups of one plan, or of one deletion by name.", "500"),
    "max_share": _option(
        "float", "The largest share of all groups in one plan or deletion by name, above 0 and at most 1.", "0.2"
    ),
    "approve_above": _option(
        "integer",
        "A plan of more groups than this needs a person's approval, and more groups than this cannot be deleted by "
        "name. 0: every plan needs one, and no group can be deleted by name.",
        "0",
    ),
    "approvers": _option(
        "string",
        "The ids of the only Airflow users whose approval counts, as a JSON list. Every plan then needs one, unless "
        "approve_above says otherwise.",
        '["ann", "42"]',
    ),
    "require_commit_log": _option(
        "boolean",
        f"Plan nothing unless the Spark job read the log of commits until after the snapshot. {_BY_NAME}",
        "True",
    ),
    "policy_file": _option(
        "string", f"The only policy file that plans and deletions may use. {_BY_NAME}", "s3://bucket/policy.yaml"
    ),
    "dry_run_only": _option("boolean", "Refuse every deletion; dry runs are allowed.", "True"),
    "named_deletions": _option(
        "boolean",
        "Whether groups may be deleted by name, without a plan. Default: only if none of min_idle_seconds, "
        "require_commit_log and policy_file is set.",
        "False",
    ),
    "ignore_signs_of_life": _option(
        "boolean",
        "Whether a deletion by name may ignore signs of life. Default: only if min_idle_seconds is not set.",
        "False",
    ),
    "storage_path": _option(
        "string",
        "The only storage of plans, approvals, backups and the journal. Another one is refused.",
        "s3a://bucket/groups",
    ),
}
"""The section ``[kafka_groups]`` of Airflow's configuration; ``hooks/floors.py`` reads all but the first."""


# The port stays visible: in Airflow 3.3.2 the Test button of a saved connection without one fails (apache/airflow
# #73298). It is the default port of the hosts that name none.
_STANDARD_FIELDS = {
    "hidden-fields": ["schema"],
    "relabeling": {
        "host": "Bootstrap servers",
        "port": "Default port",
        "login": "Username or client id",
        "password": "Password or client secret",
    },
    "placeholders": {"host": "broker1:9092,broker2:9092", "port": "9092", "login": "for PLAIN, SCRAM and OAUTHBEARER"},
}


def _field(label: str, description: str, **schema: object) -> dict[str, Any]:
    """Describe a field; without a type, it is a string that may be empty."""
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


# Airflow masks extras by the NAME of the key, not by its format: a secret field's name says password, private_key or
# secret.
_EXTRA_FIELDS = {
    "security_protocol": _field(
        "Security protocol",
        "How to talk to the brokers. SASL_SSL is the usual choice for a cluster with users.",
        type="string",
        enum=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        default="PLAINTEXT",
    ),
    "sasl_mechanism": _field(
        "SASL mechanism",
        "How to log in; only with a SASL protocol.",
        # Null in the type: not required. Without it the form cannot be saved while this is empty, and an empty string
        # among the choices does not help. Null among the choices would be shown as the word.
        type=["string", "null"],
        enum=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"],
    ),
    "oauth_token_url": _field(
        "OAuth token URL",
        "For OAUTHBEARER: the endpoint that gives tokens to a client; its id and secret are the username and password. "
        "Amazon MSK (IAM) and Google Managed Kafka need none.",
    ),
    "oauth_scope": _field("OAuth scope", "For OAUTHBEARER, where the endpoint wants one."),
    "oauth_extensions": _field(
        "OAuth extensions", "For OAUTHBEARER: sent beside the token, e.g. logicalCluster=lkc-1,identityPoolId=pool-1."
    ),
    "ssl_ca_certificate": _field(
        "CA certificate",
        "A PEM string, or the path of a file on the worker. Empty: the system's authorities.",
        format="multiline",
    ),
    "ssl_certificate": _field(
        "Client certificate", "A PEM string, or the path of a file on the worker. For mutual TLS.", format="multiline"
    ),
    "ssl_private_key": _field(
        "Client private key",
        "A PEM string, or the path of a file on the worker. For mutual TLS.",
        format="multiline",  # a password input drops the line breaks of a PEM string; the name masks it once saved
    ),
    "ssl_key_password": _field("Private key password", "If the key is encrypted.", format="password"),
    "read_only": _field(
        "Read only", "Refuse every call that changes something on the cluster.", type="boolean", default=False
    ),
    "protected_groups": _field(
        "Protected groups",
        "One name or pattern a line (connect-*): these groups are never changed through this connection.",
        type=["array", "null"],
        items={"type": "string"},
    ),
    "floors": _field(
        "Limits of every clean-up",
        'Limits that no DAG or run can exceed, as JSON, e.g. {"min_idle_seconds": "7d", "max_groups": 200, '
        '"approve_above": 0}. Also: max_share, dry_run_only, named_deletions, storage_path, require_commit_log, '
        "policy_file. Empty: no limits.",
        type=["object", "null"],
    ),
    "lease_group_prefix": _field(
        "Prefix of the lease's group",
        "A deletion joins the group <prefix>airflow-kafka-groups-lease, so that only one runs at a time; this user "
        "needs READ on it. Give a prefix that its ACLs allow, the same to all who use the cluster.",
    ),
    "client_id": _field("Client id", "Name of this client in the brokers' logs, quotas and metrics."),
    "request_timeout_seconds": _field(
        "Request timeout (s)", "For one request to one broker.", type="integer", minimum=1, maximum=3600, default=30
    ),
    "api_timeout_seconds": _field(
        "Call timeout (s)",
        "For a complete call, however many groups and retries it takes. All calls of a command or task together wait "
        "so long for a broker that answers nothing.",
        type="integer",
        minimum=1,
        maximum=86400,
        default=60,
    ),
    "parallelism": _field(
        "Parallelism",
        "In flight at each broker. Empty: 3 batches, 256 single requests (Kafka before 3.0) and 64 connections for "
        "commits. A number N: N, 64 times N, and 20 times N but at most 64.",
        type=["integer", "null"],
        minimum=1,
        maximum=64,
    ),
    "properties": _field(
        "librdkafka properties",
        'Further properties as JSON, e.g. {"socket.connection.setup.timeout.ms": "20000"}.',
        type=["object", "null"],
    ),
}
