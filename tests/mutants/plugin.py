"""A pytest plugin that lets one module be its mutant: ``MUTANT=<path>:<index>`` names it. No file is changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.mutate import mutated


class _Loader(SourceFileLoader):
    """A loader that compiles the mutant, past the byte code that is on file."""

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text()
        return compile(mutated(source, _INDEX), self.path, "exec", dont_inherit=True)


class _Finder(PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


_PATH, _, _NUMBER = os.environ["MUTANT"].rpartition(":")
_INDEX = int(_NUMBER)
_MODULE = _PATH.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
assert _MODULE not in sys.modules, f"{_MODULE} is imported already: its mutant would not be tested"
sys.meta_path.insert(0, _Finder)
