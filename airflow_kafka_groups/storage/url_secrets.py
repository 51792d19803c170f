"""Secrets in paths and URLs: what has one is refused, and not shown."""

from __future__ import annotations

import json
import re
from itertools import chain
from urllib.parse import unquote

OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "wasb", "wasbs", "oss"})
"""Schemes of URLs that begin with a bucket or container, which has no port; folders there are parts of names."""
WORDS_OF_SECRETS = r"(?:signature|token|secret|passw(?:or)?d|pwd|credential|(?:access|account|api)[_-]?key)"
"""Words in the name of what is secret: of a parameter in a URL, or of a field in an error's text."""
_PARAMETER = re.compile(
    rf"(?:[?&#]auth|[?&#;](?:sig|delegation|key|pass|jwt|[^=&#;/]*{WORDS_OF_SECRETS}[^=&#;/]*))=", re.IGNORECASE
)
"""A token in a URL: ``?sig=`` of Azure's shared access signatures, ``X-Amz-Signature=`` of presigned URLs, WebHDFS's
``?delegation=``, ``?api_key=``.

Its name has no slash: ``R&D/tokens/day=1`` is a path in a bucket. Hive's ``;auth=noSasl`` is no secret.
"""
_WEBHOOK = re.compile(
    r"\bhooks\.slack(?:-gov)?\.com/|\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/"
    r"|\.webhook\.office\.com/|\boutlook\.office(?:365)?\.com/webhook/"
    r"|\bopen\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/|\bevents\.(?:eu\.)?pagerduty\.com/integration/"
    r"|\bapi\.telegram\.org/bot\w|(?<![.\w])ntfy\.sh/\w"
    r"|/hooks/(?:(?=[a-z0-9]{17})[a-z]*\d|[a-z0-9]{17,}/[a-z0-9])",  # of Mattermost and Rocket.Chat, on any host
    re.IGNORECASE,
)
"""Places of URLs that are secret as a whole, with or without a scheme: whoever knows one can send."""
_HOSTS = re.compile(r"[^:,]+(?::\d+)?(?:,[\w.-]+(?::\d+)?)*")
"""Hosts with their ports, such as the ZooKeepers in a URL of Hive's. What follows a comma may be of a password."""
_LOGIN_WITHOUT_SLASHES = re.compile(r"(?!file:/)[^/]*:.*@", re.IGNORECASE)
"""As ``scp`` has it, or with a slash too few. Hadoop spells a path on a disk ``file:/data``."""


def has_secret(text: str) -> bool:
    """Return whether a path or URL has a password or a token in it; in doubt it has."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _LOGIN_WITHOUT_SLASHES.match(text) is not None
    innermost = scheme.lower().rpartition("::")[2]
    if innermost == "file":  # the path on a disk, after three slashes, may have anything in it
        return _LOGIN_WITHOUT_SLASHES.match(rest) is not None
    spellings = (rest.lstrip("/"), unquote(rest).lstrip("/"))  # %3A is a colon, and %40 an @
    return any(_has_password(innermost, each) or _PARAMETER.search(each) for each in spellings)


def is_webhook(text: str) -> bool:
    """Return whether the URL of an incoming webhook is in it: whoever knows one needs no other secret."""
    return _WEBHOOK.search(text) is not None


def _has_password(scheme: str, rest: str) -> bool:
    """Return whether what follows ``://`` has a user and a password: also one with a slash, and in doubt."""
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = place.rpartition("@")
    if at:
        return ":" in user
    if ":" not in place or "@" not in rest:
        return False
    return scheme in OBJECT_STORES or _HOSTS.fullmatch(place) is None


def strings_in(text: str) -> list[str]:
    """Return the strings in an object or a list in JSON; any other text as it is.

    In ``{"url": "http://host:8080", "mail": "me@host"}``, the port and the address are no user with a password.
    """
    try:
        found = json.loads(text, object_pairs_hook=lambda pairs: [*chain.from_iterable(pairs)])
    except (ValueError, RecursionError):
        return [text]
    strings, left = list[str](), [found]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, str):
            strings.append(each)
    return strings
