"""Models in files: Python files that are executed, or SMPS files that are read."""

from __future__ import annotations

import fnmatch
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from pyomo.common.collections import Bunch
from pyomo.core.base.block import BlockData
from pyomo.core.base.param import Param
from pyomo.core.base.PyomoModel import AbstractModel
from pyomo.core.base.var import Var

from pyomo_csg.errors import AnnotationError, ModelError, shortlist
from pyomo_csg.interop.smps import is_smps_file, read_smps
from pyomo_csg.stages import annotate
from pyomo_csg.stages.annotation import check_constructed, is_annotated

_NO_MODEL = (
    "it has neither a function build() or pyomo_create_model() nor an object model"
)
_RUN_NAME = "csg_model"  # __name__ in the file, which does not run as "__main__"


def load_model(
    path: str | Path,
    first_stage: Sequence[str] = (),
    uncertain: Sequence[str] = (),
    *,
    default_names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> BlockData:
    """Execute a Python file and return its annotated model.

    The model is what ``build()`` or Pyomo's ``pyomo_create_model()`` returns, or the object
    ``model``. An AbstractModel is instantiated from the data in its declarations. An SMPS
    file (.cor, .tim or .sto) is read, not executed. ``first_stage`` and ``uncertain`` are
    names to annotate, such as ``'x'`` and ``'x[1]'``, or patterns such as ``'order*'``;
    ``default_names`` are those of a model that is not annotated otherwise.
    """
    path = Path(path)
    if not path.is_file():
        raise _model_error(path, "there is no such file")
    if is_smps_file(path):
        return read_smps(path).model
    with _import_from_folder(path), redirect_stdout(sys.stderr):
        with _model_errors(path):
            model = _find_model(runpy.run_path(str(path), run_name=_RUN_NAME))
        if isinstance(model, AbstractModel) and not model.is_constructed():
            model = _create_instance(model, path)
    if model is None:
        raise _model_error(path, _NO_MODEL)
    if first_stage or uncertain:
        annotate(
            model,
            first_stage_variables=_match_patterns(model, Var, first_stage),
            uncertain_params=_match_patterns(model, Param, uncertain),
        )
    elif not is_annotated(model):
        check_constructed(model)
        if default_names is None:
            raise _not_annotated(model, path)
        annotate(
            model,
            first_stage_variables=_find_elements(model, Var, default_names[0]),
            uncertain_params=_find_elements(model, Param, default_names[1]),
        )
    return model


def _find_model(names: Mapping[str, Any]) -> Any:
    """Return the model among the names that a file defines."""
    if callable(build := names.get("build")):
        return build()
    if callable(create := names.get("pyomo_create_model")):
        return create(options=Bunch(), model_options=Bunch())
    return names.get("model")


def _create_instance(model: Any, path: Path) -> BlockData:
    """Return the instance of an AbstractModel, from the data in its declarations."""
    try:
        return model.create_instance()
    except Exception as error:  # its rules can raise anything
        words = " ".join(str(error).split())
        found = (
            f"it is an AbstractModel without all its data ({words}); let build() return "
            "model.create_instance(...)"
        )
        raise _model_error(path, found) from error


def _not_annotated(model: BlockData, path: Path) -> ModelError:
    variables = [v.name for v in model.component_objects(Var)]
    params = [p.name for p in model.component_objects(Param) if p.mutable]
    found = (
        "name its first-stage variables with --first-stage and its uncertain Params with "
        f"--uncertain, or call csg.annotate in '{path}'; its Vars are "
        f"{shortlist(variables) or 'none'}, its mutable Params {shortlist(params) or 'none'}"
    )
    return ModelError(f"'{model.name}' is not annotated", [found])


@contextmanager
def _import_from_folder(path: Path) -> Iterator[None]:
    """Let the file import modules in its folder, as a script can."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextmanager
def _model_errors(path: Path) -> Iterator[None]:
    """Turn any error in the file into a ModelError with its line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        where = f" in line {line}" if line else ""
        words = " ".join(str(error).split())
        raise _model_error(path, f"{type(error).__name__}{where}: {words}") from error


def _match_patterns(model: BlockData, kind: type, patterns: Sequence[str]) -> list[Any]:
    """Return the components that match the patterns; names stay as they are."""
    if not isinstance(model, BlockData):
        return list(patterns)  # annotate will report the type of the model
    known = {c.name: c for c in model.component_objects(kind)}
    found: list[Any] = []
    for pattern in patterns:
        if "[" in pattern or not set(pattern) & set("*?"):
            found.append(pattern)  # annotate knows names, slices and near misses
            continue
        names = fnmatch.filter(known, pattern)
        if not names:
            has = ", ".join(known) or "none"
            problem = f"no {kind.__name__} matches '{pattern}'; the model has {has}"
            raise AnnotationError(f"Cannot annotate '{model.name}'", [problem])
        found += [known[name] for name in names]
    return found


def _find_elements(model: BlockData, kind: type, names: Sequence[str]) -> list[Any]:
    """Return elements by name; a name without an element stays a name."""
    data = model.component_data_objects(kind)  # immutable Params hold numbers
    known = {one.name: one for one in data if hasattr(one, "name")}
    return [known.get(name, name) for name in names]


def _model_error(path: Path, problem: str) -> ModelError:
    return ModelError(f"No model in '{path}'", [problem])
