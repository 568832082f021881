"""Read ``method=`` of csg.fit: a name, an object, or the name of an installed plug-in."""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.methods.specifications import (
    BuiltIn,
    Method,
    built_in_method,
    regularization_problems,
)
from pyomo_csg.validation import METHODS, Problems, is_one_of

GROUP = "pyomo_csg.methods"  # of entry points
_SUBJECT = "Unknown method"
_LONGEST_NAME = 80


def read_method(method: Any, regularization: Any = "auto") -> BuiltIn | Method:
    """Return the object of ``method=``, or raise a DataError with every problem.

    ``regularization`` is for the package's methods by name; objects have their own.
    """
    problems = Problems(_SUBJECT)
    if is_one_of(method, METHODS):
        problems.add(*regularization_problems(method, regularization))
        problems.raise_any()
        return built_in_method(method, regularization)
    is_plugin = _is_plugin(method)
    found = problems.check("method", _load, method) if is_plugin else method
    if found is not None or not is_plugin:
        problems.add(*_method_problems(found))
    if not isinstance(method, str) and not is_one_of(regularization, ("auto",)):
        problems.add(
            f"regularization is {regularization!r:.80}, but method is an object, which "
            "has its own settings; leave it out, or give it to the object if it takes one"
        )
    elif isinstance(method, str):
        problems.add(*regularization_problems(method, regularization))
        if found is not method and not is_one_of(regularization, ("auto",)):
            problems.add(
                f"regularization is {regularization!r:.80}, but method {method!r:.80} "
                "takes none; leave it out"
            )
    problems.raise_any()
    assert found is not None
    return found


def _is_plugin(method: Any) -> bool:
    return isinstance(method, str) and bool(entry_points(group=GROUP, name=method))


def _load(name: str) -> Any:
    """Return the method that an installed package provides by a name."""
    found: dict[str, EntryPoint] = {
        one.value: one for one in entry_points(group=GROUP, name=name)
    }
    if len(found) > 1:
        several = f"'{name}' is installed as {shortlist(sorted(found))}"
        raise DataError(_SUBJECT, [f"{several}; uninstall all packages but one"])
    (entry,) = found.values()
    try:
        loaded = entry.load()
        return loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # a plug-in may raise anything
        failed = f"plug-in '{name}' ({entry.value}) cannot be loaded"
        reason = f"{type(error).__name__}: {error}"
        remedy = "repair or uninstall its package"
        raise DataError(_SUBJECT, [f"{failed} ({reason:.300}); {remedy}"]) from error


def _method_problems(method: Any) -> list[str]:
    """Return what keeps something from being a method."""
    if isinstance(method, BuiltIn):
        return []
    if isinstance(method, str):
        known = [*METHODS, *sorted({one.name for one in entry_points(group=GROUP)})]
        near = difflib.get_close_matches(method, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"give one of {known}"
        return [f"method is {method!r:.80}; {hint}"]
    if isinstance(method, type):
        kind = method.__name__
        return [f"method is the class {kind}; give an object of it, such as {kind}()"]
    wanted = "an object with a name and a method train(task)"
    if not callable(getattr(method, "train", None)):
        return [f"method is {method!r:.80}; give one of {METHODS}, or {wanted}"]
    name = getattr(method, "name", None)
    is_text = isinstance(name, str) and name.isprintable() and name.strip() != ""
    if not is_text or len(str(name)) > _LONGEST_NAME:
        what = f"method {type(method).__name__} has name {name!r:.80}"
        return [f"{what}; give a text of one line, up to {_LONGEST_NAME} characters"]
    if is_one_of(name, METHODS):
        what = f"method {type(method).__name__} has name '{name}'"
        return [f"{what}, which is a method of the package; give another name"]
    return []
