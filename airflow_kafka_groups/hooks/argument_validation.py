"""Arguments of operators and sensors, each declared once with its reader: ``group_ids = Argument(read_group_ids)``.

A literal is read when the DAG file is parsed, a template or another task's output when Airflow renders the task: as
text, also where a DAG renders natively: Python makes 3.1 of the version 3.10, and other names of those in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, wraps
from inspect import signature
from itertools import chain
from typing import Any, Generic, ParamSpec, Self, TypeVar

from airflow.sdk.definitions.context import render_template_to_string
from jinja2 import Environment, TemplateError, TemplateSyntaxError, Undefined
from jinja2.nodes import TemplateData

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import listed
from airflow_kafka_groups.observe.patterns import LIST_TEXT
from airflow_kafka_groups.storage.url_secrets import has_secret

P = ParamSpec("P")
T = TypeVar("T")

_NOTHING = "its template rendered to nothing: check what it refers to"
_SEVERAL = "its template rendered to several: pass all of them as one template, '{{ … | tojson }}'"
_LINE_END = "its template rendered to a line end: take it off by '| trim', or pass a list, '{{ … | tojson }}'"
_IN_JSON = "is JSON with a template in it: make all of it one template, '{{ … | tojson }}', or write it in Python"
_BEGINS = re.compile(r"\{\{|\{%")


class Argument(Generic[T]):
    """An argument that is read whenever it is set.

    :param read: the reader, of the name and a value; wrapped in ``optional`` if the argument may be ``None``. It raises
        ``ConfigurationError``. What one reads that is annotated to return a ``str`` is text, and never JSON.
    :param templated: whether Airflow renders it. Default true.
    :param names: whether it has names, or each item of a list is one, and not any text. Default true.
    """

    def __init__(self, read: Callable[[str, Any], T], *, templated: bool = True, names: bool = True) -> None:
        self._read = read
        self._is_text = getattr(read, "__annotations__", {}).get("return") in ("str", str)
        self.templated, self.names = templated, names

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> T:
        if instance is None:
            return self  # type: ignore[return-value]  # of the class, which no annotation asks for
        if self._name not in vars(instance):
            raise AttributeError(self._name)
        return vars(instance)[self._name]  # type: ignore[no-any-return]

    def __set__(self, instance: Any, value: Any) -> None:
        held, unread, value = vars(instance), instance._unread_arguments, listed(value)
        # What a task sets by itself is no template any more.
        if not instance._rendered_arguments and is_template(value):
            if not instance._given_arguments:  # another task's output may look like a template
                self._check_templates(value, instance.get_template_env())
            held["_unread_arguments"] = unread | {self._name}
            held[self._name] = value
        elif value is None and self._name in unread:  # leaving it out may mean "all": nobody meant that by a template
            raise self._error(_NOTHING)
        elif self._name in unread or type(before := held.get(self._name, self)) is not type(value) or before != value:
            held[self._name] = self._read(self._name, value)
            held["_unread_arguments"] = unread - {self._name}

    def rendered(self, task: Any, context: Any, env: Environment) -> Any:
        """Return the value with each template rendered."""
        given, env = vars(task)[self._name], env.overlay(autoescape=False)  # R&amp;D is another name
        self._check_templates(given, env)
        text = partial(self._text, context, env, is_item=not isinstance(given, str))
        if isinstance(given, Mapping) and not self.names:  # properties of Spark, as Airflow renders them
            text = partial(task.render_template, context=context, jinja_env=env)
        try:
            return self._filled(given, text, context)
        except ConfigurationError:
            raise
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
            why = exc if isinstance(exc, TemplateError) else type(exc).__name__  # others may show what is secret
            raise self._error(f"a template in it cannot be rendered ({why}): check what it refers to") from None

    def _filled(self, value: Any, text: Callable[[str], Any], context: Any) -> Any:
        if isinstance(value, Mapping):
            filled = partial(self._filled, text=text, context=context)
            made = {filled(key) if isinstance(key, str) else key: filled(each) for key, each in value.items()}
            if len(made) < len(value):
                raise self._error("has a template in a key that rendered to a name that is there already: check it")
            return made
        if isinstance(value, list | tuple):
            return [self._filled(each, text, context) for each in value]
        if isinstance(value, str):  # Jinja would take the line end off the end of a name, and comments out of it
            return text(value) if _BEGINS.search(value) else value
        return value.resolve(context) if hasattr(value, "iter_references") else value

    def _text(self, context: Any, env: Environment, template: str, *, is_item: bool) -> str:
        filled_in = partial(self._to_text, template, is_item=is_item)
        one_name = is_item and self.names
        env = env.overlay(finalize=filled_in, keep_trailing_newline=one_name)  # without it, it is another group
        found = render_template_to_string(env.from_string(template), context)
        if one_name and LIST_TEXT.fullmatch(found):  # loops and blocks put one together: as a glob, it is one letter
            raise self._error(_SEVERAL, template)
        if one_name and re.search(r"[\r\n]", found):  # no pattern with one keeps anything
            raise self._error(_LINE_END, template)
        return found

    def _to_text(self, template: str, value: Any, *, is_item: bool) -> str:
        """Return the text of what a ``{{ … }}`` was rendered to: one name, or JSON for what is no text."""
        found = listed(value)
        text = str(found)  # raises for what is undefined
        if value is None or isinstance(value, Undefined) or text.strip() == "None":
            raise self._error(_NOTHING, template)
        is_several = isinstance(found, list | tuple | Mapping)
        if self.names and ((is_several and (is_item or self._is_text)) or (is_item and LIST_TEXT.fullmatch(text))):
            raise self._error(_SEVERAL, template)
        return json.dumps(found, ensure_ascii=False) if is_several else text

    def _check_templates(self, value: Any, env: Environment) -> None:
        """Raise for a template that cannot be read, or is within JSON, where what is filled in could end a string."""
        for text in (each for each in _leaves(value) if isinstance(each, str) and _BEGINS.search(each)):
            try:
                tree = env.parse(text)
            except TemplateSyntaxError as exc:
                why = f"has a template that Jinja cannot read: close each {{{{ … }}}} and {{% … %}} ({exc.message})"
                raise self._error(why, text) from None
            written = "".join(each.data for each in tree.find_all(TemplateData))  # its [ may be filled in
            if text is value and not self._is_text and (written.lstrip().startswith(("[", "{")) or '"' in written):
                raise self._error(_IN_JSON, text)

    def _error(self, remedy: str, written: str = "") -> ConfigurationError:
        """Return an error, of what is written: what is rendered, a word of a program or a URL may be a secret."""
        shown = written if self.names and written and not has_secret(written) else None
        return ConfigurationError(self._name, shown, remedy)


def _sets(init: Callable[P, None], names: Collection[str]) -> Callable[P, None]:
    """Set declared arguments when the body of an ``__init__``, with keyword-only arguments, is done."""
    found = signature(init).parameters
    defaults = {name: found[name].default for name in names if name in found}

    @wraps(init)
    def init_and_set(*self: P.args, **given: P.kwargs) -> None:
        init(*self, **given)
        for name, default in defaults.items():
            setattr(self[0], name, given.get(name, default))

    return init_and_set


class DeclaredArguments:
    """A base of operators and sensors whose arguments, and so their template fields, are declared with ``Argument``.

    Those that a class declares are set when its own ``__init__``, which takes them by keyword, is done.
    """

    template_fields: Collection[str]
    _unread_arguments: frozenset[str] = frozenset()  # that hold a template; Airflow copies operators shallowly
    _rendered_arguments = False
    _given_arguments: Mapping[str, Any] = {}

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Remember what Airflow gives to a mapped task: subclasses and ``default_args`` add arguments of their own."""
        made = super().__new__(cls)
        vars(made).update({"_given_arguments": given} if "_airflow_from_mapped" in given else {})
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).items():
            if isinstance(getattr(super(cls, cls), name, None), Argument) and not isinstance(value, Argument):
                remedy = "hides an argument, and what is passed for it: give another default to its __init__ instead"
                raise ConfigurationError(f"{cls.__name__}.{name}", value, remedy)
        own_arguments = {name: found for name, found in vars(cls).items() if isinstance(found, Argument)}
        if own_arguments and "__init__" in vars(cls):
            cls.__init__ = _sets(cls.__init__, own_arguments)  # type: ignore[method-assign]
        if "template_fields" not in vars(cls):
            inherited = chain.from_iterable(getattr(base, "template_fields", ()) for base in reversed(cls.__bases__))
            own = (name for name, found in own_arguments.items() if found.templated)
            cls.template_fields = tuple(dict.fromkeys((*inherited, *own)))

    def _do_render_template_fields(self, *args: Any, **kwargs: Any) -> None:
        """Render the templates, also of a mapped task, which Airflow renders by this method alone."""
        render: Any = super()._do_render_template_fields  # type: ignore[misc]  # Airflow's base class has it
        by = signature(render).bind(*args, **kwargs).arguments
        if by["parent"] is not self:  # something in an argument of a subclass, with templates of its own
            return render(**by)  # type: ignore[no-any-return]
        given, unread, is_first = self._outputs(by["context"]), self._unread_arguments, not self._rendered_arguments
        vars(self)["_rendered_arguments"] = True
        for name in dict.fromkeys((*by["template_fields"], *sorted(unread | given))):  # a subclass may lack some
            argument, value = getattr(type(self), name, None), vars(self).get(name)
            if not isinstance(argument, Argument):
                if name not in given:  # another task's output is no template
                    render(**by | {"template_fields": [name]})
            elif name in given:
                if value is None:  # it may mean "all"
                    raise ConfigurationError(name, None, "is nothing in what the task is mapped over: check it")
                setattr(self, name, value)
            elif is_first:
                _require_usual_delimiters(name, by["jinja_env"])
                if name in unread:  # a template may refer to what is rendered before it: {{ task.cluster }}
                    setattr(self, name, argument.rendered(self, by["context"], by["jinja_env"]))

    def _outputs(self: Any, context: Mapping[str, Any]) -> set[str]:
        """Return the arguments of a mapped task that another task's output gives: names in it are no templates."""
        mapped: Any = self.dag.task_dict.get(self.task_id) if self.has_dag() else None
        over: Any = getattr(getattr(mapped, "expand_input", None), "value", {})
        if isinstance(over, Mapping):
            return {name for name, value in over.items() if hasattr(value, "iter_references")}
        over = over[context["ti"].map_index] if isinstance(over, Sequence) else over  # some of a list may be outputs
        given = self._given_arguments if hasattr(over, "iter_references") else {}
        written = mapped.partial_kwargs  # an output may take the place of one of these
        fields = given.keys() & set(self.template_fields)
        return {name for name in fields if written.get(name, given) is not given[name]}

    def require_read(self) -> None:
        """Raise for an argument whose template nobody rendered, as where a function calls ``execute()`` by itself."""
        for name in sorted(self._unread_arguments):
            remedy = "has a template that was not rendered: Airflow renders tasks of a DAG only. Pass the value itself"
            raise ConfigurationError(name, None, remedy)


def _require_usual_delimiters(name: str, env: Environment) -> None:
    """Raise for a DAG with delimiters of its own: a template would be a name, and a comment would cut one short."""
    used = env.variable_start_string, env.block_start_string, env.comment_start_string
    if used != ("{{", "{%", "{#") or env.line_statement_prefix or env.line_comment_prefix:
        raise ConfigurationError(name, None, "leave delimiters out of this DAG's jinja_environment_kwargs")


def is_template(value: Any) -> bool:
    """Return whether a value is not known yet: a template, another task's output, or a collection with one in it."""
    return any(_BEGINS.search(it) if isinstance(it, str) else hasattr(it, "iter_references") for it in _leaves(value))


def _leaves(value: Any) -> Iterable[Any]:
    several = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    return chain.from_iterable(map(_leaves, several)) if isinstance(several, list | tuple) else (value,)
