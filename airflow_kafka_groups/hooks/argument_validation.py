"""Arguments of operators and sensors, each declared once with its reader.

::

    class DescribeGroupsOperator(KafkaGroupsOperator):
        group_ids = Argument(read_group_ids)

        @sets_arguments
        def __init__(self, *, group_ids: Sequence[str] | str, **kwargs: Any) -> None:
            super().__init__(**kwargs)

The reader checks and converts the value when it is set: a literal when the DAG file is parsed, a template or another
task's output when Airflow sets the rendered value. ``self.group_ids`` then is what the reader returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial, wraps
from inspect import signature
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks import json_templates, rendered_names
from airflow_kafka_groups.hooks.json_templates import is_template, listed
from airflow_kafka_groups.hooks.rendered_names import require_rendered
from airflow_kafka_groups.storage.url_secrets import has_secret

P = ParamSpec("P")
T = TypeVar("T")
Reader = Callable[[str, Any], T]
"""A function of an argument's name and value. It raises ``ConfigurationError`` for a value that cannot be used."""

_UNREAD = "_unread_arguments"
_GIVEN = "_given_arguments"
_FROM_MAPPED = "_airflow_from_mapped"
_RENDERS = "_renders_arguments"
_RENDERED = "_rendered_arguments"


class Argument(Generic[T]):
    """An argument that is read whenever it is set.

    :param read: the reader; wrapped in ``optional`` if the argument may be ``None``. What one reads that is annotated
        to return a ``str`` is text, and never JSON.
    :param templated: whether Airflow renders it. Default true.
    :param names: whether it has names, or each item of a list is one, and not any text. Default true.
    """

    def __init__(self, read: Reader[T], *, templated: bool = True, names: bool = True) -> None:
        self._read = read
        self._is_text = getattr(read, "__annotations__", {}).get("return") in ("str", str)
        self.templated = templated
        self.names = names
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        try:
            return vars(instance)[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: object, value: Any) -> None:
        held, unread = vars(instance), _unread(instance)
        if value is None and self._name in unread:
            # Leaving the argument out may mean "all": whoever wrote a template did not mean that.
            raise ConfigurationError(self._name, None, rendered_names.NOTHING)
        value = listed(value)
        if is_template(value) and _RENDERED not in held:  # what a task sets by itself is no template any more
            if _RENDERS not in held and _GIVEN not in held:  # what was rendered, or an output, may look like a template
                self.parse(value)
            held[_UNREAD] = unread | {self._name}
            held[self._name] = value
        elif not self._is_read(instance, value):
            self.read(instance, value)

    def parse(self, value: Any) -> Any:
        """Return a string, a list or an object with its templates apart; ``None`` for what Airflow renders.

        Raises ``ConfigurationError`` for one that cannot be parsed.
        """
        try:
            is_text = self._is_text and isinstance(value, str)
            return json_templates.text_of(value) if is_text else json_templates.parse(value)
        except ValueError as exc:
            if not self.names and isinstance(value, list | tuple):
                return None  # the words of a program may be templates of its own, where the DAG has other delimiters
            raise ConfigurationError(self._name, self._shown(value), str(exc)) from None

    def rendered(self, parsed: Any, task: Any, rendering: Mapping[str, Any]) -> Any:
        """Return what ``parse`` returned with each template rendered.

        :param rendering: the ``context`` and the ``jinja_env``.

        Raises ``ConfigurationError`` for one that was rendered to no name, or to several.
        """
        nodes_of, as_given = (partial(_tried, render, task, rendering) for render in (_nodes, _render))
        try:
            made = rendered_names.Rendering(nodes_of=nodes_of, as_given=as_given, names=self.names).rendered(parsed)
        except ValueError as exc:
            remedy, *texts = exc.args
            raise ConfigurationError(self._name, self._shown(*texts), remedy) from None
        return listed(made)

    def _shown(self, value: Any = None) -> Any:
        """Return a value as an error may show it: a word of a program may be a secret, and so may a URL."""
        return value if self.names and not has_secret(str(value)) else None

    def _is_read(self, instance: object, value: Any) -> bool:
        """Return whether the value is what the reader returned before: Airflow sets literals again when it renders."""
        before = vars(instance).get(self._name, self)
        return type(before) is type(value) and before == value

    def read(self, instance: object, value: Any) -> None:
        """Store what the reader returns for the value."""
        vars(instance)[self._name] = self._read(self._name, value)
        vars(instance)[_UNREAD] = _unread(instance) - {self._name}


def sets_arguments(init: Callable[P, None]) -> Callable[P, None]:
    """Set the declared arguments that an ``__init__`` takes, when its body is done.

    :param init: the ``__init__``, with keyword-only arguments.
    """
    defaults = {name: found.default for name, found in signature(init).parameters.items()}

    @wraps(init)
    def init_and_set(*self: P.args, **given: P.kwargs) -> None:
        init(*self, **given)
        for name, default in defaults.items():
            if isinstance(getattr(type(self[0]), name, None), Argument):
                setattr(self[0], name, given.get(name, default))

    return init_and_set


class DeclaredArguments:
    """A base of operators and sensors whose arguments, and so their template fields, are declared with ``Argument``."""

    template_fields: Collection[str]

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Remember what Airflow gives to a mapped task: subclasses and ``default_args`` add arguments of their own."""
        made = super().__new__(cls)
        if _FROM_MAPPED in given:
            vars(made)[_GIVEN] = given
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).items():
            hides = any(isinstance(vars(base).get(name), Argument) for base in cls.__mro__[1:])
            if hides and not isinstance(value, Argument):
                remedy = "hides an argument, and what is passed for it: give another default to its __init__ instead"
                raise ConfigurationError(f"{cls.__name__}.{name}", value, remedy)
        if "template_fields" not in vars(cls):
            inherited: Collection[str] = super(cls, cls).template_fields  # type: ignore[misc]  # Airflow's base has it
            own = (name for name, found in vars(cls).items() if isinstance(found, Argument) and found.templated)
            cls.template_fields = tuple(dict.fromkeys((*inherited, *own)))

    def _do_render_template_fields(self, *args: Any, **kwargs: Any) -> None:
        """Render the templates, also of a mapped task, which Airflow renders by this method alone."""
        render: Any = super()._do_render_template_fields  # type: ignore[misc]  # Airflow's base class has it
        by = signature(render).bind(*args, **kwargs)
        if by.arguments["parent"] is not self:  # something in an argument of a subclass, with templates of its own
            render(*by.args, **by.kwargs)
            return
        given = _outputs(self, by.arguments["context"])  # another task's output is no template
        if isinstance(seen := kwargs.get("seen_oids"), set):  # of a mapped task: what Airflow is not to render
            outputs = {name: vars(self)[name] for name in given if name in vars(self)}
            seen |= set(map(id, outputs.values()))
            for name, value in outputs.items():
                if value is None and isinstance(getattr(type(self), name, None), Argument):  # it may mean "all"
                    raise ConfigurationError(name, None, "is nothing in what the task is mapped over: check it")
        literals = {name: value for name, value in vars(self).items() if _is_literal(self, name)}
        unread = sorted(_unread(self) - given)  # a subclass may have left one out of its fields
        fields = list(dict.fromkeys((*by.arguments["template_fields"], *unread)))
        written = {name: getattr(type(self), name) for name in fields if name in unread}
        parsed = {name: found for name, argument in written.items() if (found := argument.parse(vars(self)[name]))}
        require_rendered(self, [name for name in literals if name not in given], written, parsed)
        env = by.arguments["jinja_env"]
        of_arguments = env.overlay(autoescape=False)  # R&amp;D is another name
        for name in fields:  # a template may refer to what is rendered before it: {{ task.cluster }}
            by.arguments["jinja_env"] = of_arguments if isinstance(getattr(type(self), name, None), Argument) else env
            if name in parsed:
                vars(self)[name] = written[name].rendered(parsed[name], self, by.arguments)
                continue
            by.arguments["template_fields"] = [name]
            vars(self)[_RENDERS] = True
            try:
                render(*by.args, **by.kwargs)
            finally:
                vars(self).pop(_RENDERS, None)
        vars(self).update(literals)  # Jinja takes a line end from the end of a group's name, and comments out of it
        for name in _unread(self):  # the rendered value looks like a template itself: a group may be named "{{"
            getattr(type(self), name).read(self, vars(self)[name])
        if getattr(self, "_lock_for_execution", False):  # as Airflow calls the copy of a task that it is to execute
            vars(self)[_RENDERED] = True


def _tried(render: Callable[[Any, Mapping[str, Any], Any], Any], task: Any, by: Mapping[str, Any], value: Any) -> Any:
    """Render a value. Raises ``ValueError``, whose text says why, for what Jinja cannot render."""
    from jinja2 import TemplateError

    try:
        return render(task, by, value)
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
        what = exc if isinstance(exc, TemplateError) else type(exc).__name__  # others may show what is secret
        raise ValueError(f"a template in it cannot be rendered ({what}): check what it refers to") from None


def _render(task: Any, by: Mapping[str, Any], value: Any) -> Any:
    return task.render_template(value, by["context"], by["jinja_env"])


def _nodes(_: Any, by: Mapping[str, Any], text: str) -> list[Any]:
    """Return the parts of what a template is rendered to, as Airflow puts them together.

    Where a DAG renders natively, Airflow reads their text as Python: ``3.10`` and names in quotes become others.
    """
    from jinja2 import Undefined

    env, context = by["jinja_env"], copy(by["context"])
    template = env.from_string(text)
    context.update((name, value) for name, value in template.globals.items() if name not in context)
    nodes = list(template.root_render_func(env.context_class(env, context, template.name, template.blocks)))
    return [str(node) if isinstance(node, Undefined) else node for node in nodes]


def require_read(task: object) -> None:
    """Raise ``ConfigurationError`` for an argument whose template nobody rendered: its text would count as its value.

    Airflow renders the tasks of a DAG, and not an operator whose ``execute()`` a function calls.
    """
    for name in sorted(_unread(task)):
        remedy = "has a template that was not rendered: Airflow renders tasks of a DAG only. Pass the value itself"
        raise ConfigurationError(name, None, remedy)


def _is_literal(task: object, name: str) -> bool:
    """Return whether a name is that of an argument without a template in it, which was read."""
    return isinstance(getattr(type(task), name, None), Argument) and name not in _unread(task)


def _outputs(task: Any, context: Mapping[str, Any]) -> set[str]:
    """Return the arguments of a mapped task that another task's output gives.

    Names of groups are no templates. Airflow renders none of ``expand()``, but it knows them by the object that the
    task was given, and an argument is the one that its reader made of it; of ``expand_kwargs()`` it renders all.
    """
    mapped: Any = task.dag.task_dict.get(task.task_id) if task.has_dag() else None
    if (expanded := getattr(mapped, "expand_input", None)) is None:
        return set()
    over = expanded.value
    if isinstance(over, Mapping):
        return {name for name, value in over.items() if hasattr(value, "iter_references")}
    if isinstance(over, Sequence):
        over = over[context["ti"].map_index]  # in a list of the DAG file, some may be outputs
    if not hasattr(over, "iter_references"):  # literals of the DAG file, which may be templates
        return set()
    given: Mapping[str, Any] = vars(task).get(_GIVEN, {})
    partial = mapped.partial_kwargs  # an output may take the place of one of these
    return {name for name in given.keys() & set(task.template_fields) if partial.get(name, given) is not given[name]}


def _unread(instance: object) -> frozenset[str]:
    """Return the names of the arguments that hold a template. Immutable: Airflow copies operators shallowly."""
    found: frozenset[str] = vars(instance).get(_UNREAD, frozenset())
    return found
