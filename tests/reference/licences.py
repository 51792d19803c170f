"""The licences of what is installed with the package, from the metadata of the tested versions."""

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.reference.markdown import page, table

PACKAGE = "airflow-kafka-groups"
EXTRA = "spark"
_CLASSIFIER = "License :: "
_LONGEST_NAME = 60
_SPDX = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "PSF": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Apache 2": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "ISC License": "ISC",
    "MIT -or- Apache License 2.0": "MIT OR Apache-2.0",
}
"""Other names of licences, and their identifiers."""
_MOST_NAMED = 10
"""Of a licence that more packages have, the page has their number."""


def licences_page() -> str:
    """Return the page."""
    base = installed(PACKAGE)
    everything = installed(PACKAGE, EXTRA)
    names: dict[tuple[str, str], list[str]] = {}
    for name, found in sorted(everything.items()):
        names.setdefault(("" if name in base else f"with `[{EXTRA}]`", licence_of(found)), []).append(f"`{name}`")
    rows = [
        (licence, extra, ", ".join(found) if len(found) <= _MOST_NAMED else f"{len(found)} packages")
        for (extra, licence), found in sorted(names.items())
    ]
    return page(
        "Licences",
        f'What `pip install "{PACKAGE}[{EXTRA}]"` installs on Linux with Python 3.11, in the tested versions '
        "(`constraints.txt` in the repository), by the licence that each package declares. This package itself is "
        "under the Apache License 2.0. Beside these, Spark needs Java, and jobs that read Kafka need the jars of "
        "Spark's Kafka connector (Apache License 2.0).",
        table(("licence", "", "packages"), rows),
    )


@cache
def installed(name: str, *extras: str) -> Mapping[str, Distribution]:
    """Return what a package needs, directly or not, by canonical name; what is not installed here is left out.

    :param name: the package.
    :param extras: its extras.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(name, extras)]
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        try:
            this = distribution(key[0])
        except PackageNotFoundError:
            continue
        found[canonicalize_name(key[0])] = this
        waiting += _needed(this, key[1])
    return {each: this for each, this in found.items() if each != name}


def _needed(this: Distribution, extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for text in this.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement.name, tuple(sorted(requirement.extras))


def licence_of(this: Distribution) -> str:
    """Return the licence that a package declares, by its SPDX identifier where there is one.

    :param this: the package.

    Raises ValueError for a package that declares none.
    """
    metadata = this.metadata
    classifiers = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if _CLASSIFIER in text]
    fields = [*(metadata.get_all(name) or () for name in ("License-Expression", "License")), classifiers]
    declared = [" or ".join(sorted(set(values))) for values in fields]
    names = (" ".join(text.split()) for text in declared if text)
    for name in names:
        if len(name) <= _LONGEST_NAME and name not in ("UNKNOWN", "Dual License", "OSI Approved"):
            return re.sub(r" \(.*\)$", "", _SPDX.get(name, name))
    raise ValueError(f"{metadata['Name']} declares no licence")


def is_the_tested_environment() -> bool:
    """Return whether the page is about this environment: its Python, with everything installed."""
    return sys.version_info[:2] == (3, 11) and "pyspark" in installed(PACKAGE, EXTRA)
