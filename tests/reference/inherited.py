"""An extension of griffe, which reads docstrings for the site: a class has the arguments that it hands on, too."""

import re
from collections.abc import Mapping
from typing import Any

import griffe

_PARAM = re.compile(r"^:param (\w+):.*?(?=^:param |\n\n|\Z)", re.DOTALL | re.MULTILINE)
_PACKAGE = "airflow_kafka_groups"


class InheritedArguments(griffe.Extension):
    """Complete the classes, and put what a docstring says about parameters behind everything else.

    griffe takes what follows the parameters for a part of the last one.
    """

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Complete everything in a package, all of which is loaded."""
        if pkg.name == _PACKAGE:
            said = {each.path: _said(each) for each in _objects(pkg)}
            for each in _objects(pkg):
                _complete(each, said)


def _objects(of: griffe.Object) -> list[griffe.Object]:
    found: list[griffe.Object] = []
    for member in of.members.values():
        if isinstance(member, griffe.Object):
            found += [member, *_objects(member)]
    return found


def _said(each: griffe.Object) -> dict[str, str]:
    """Return what a docstring says about each parameter, as it is written."""
    return {} if each.docstring is None else {one[1]: one[0].rstrip() for one in _PARAM.finditer(each.docstring.value)}


def _complete(each: griffe.Object, said: Mapping[str, Mapping[str, str]]) -> None:
    params = dict[str, str]()
    for base in each.mro() if isinstance(each, griffe.Class) and _hands_on(each.members.get("__init__")) else ():
        if base.path.startswith(f"{_PACKAGE}."):
            params = {**said[base.path], **params}
            _take(each.members.get("__init__"), base.members.get("__init__"))
    params = {**said[each.path], **{name: text for name, text in params.items() if name not in said[each.path]}}
    if each.docstring is not None and params:
        others = _PARAM.sub("", each.docstring.value).strip()
        each.docstring.value = "\n\n".join([others, "\n".join(params.values())])


def _hands_on(begin: object) -> bool:
    return begin is None or (isinstance(begin, griffe.Function) and _rest(begin) is not None)


def _rest(begin: griffe.Function) -> griffe.Parameter | None:
    return next((one for one in begin.parameters if one.kind is griffe.ParameterKind.var_keyword), None)


def _take(begin: object, of_base: object) -> None:
    """Take a base's keyword-only parameters into a signature, before its ``**kwargs``."""
    if not isinstance(begin, griffe.Function) or not isinstance(of_base, griffe.Function):
        return
    if (rest := _rest(begin)) is not None:
        del begin.parameters[rest.name]
        for parameter in of_base.parameters:
            if parameter.kind is griffe.ParameterKind.keyword_only and parameter.name not in begin.parameters:
                begin.parameters.add(parameter)
        begin.parameters.add(rest)
