"""Models in Python files: found, executed, and annotated by names."""

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
_NAME = "csg_model"  # what a file finds in __name__; it is not run as "__main__"


def load_model(
    path: str | Path,
    first_stage: Sequence[str] = (),
    uncertain: Sequence[str] = (),
    *,
    otherwise: tuple[Sequence[str], Sequence[str]] | None = None,
) -> BlockData:
    """Execute a Python file and return its model.

    That is what build() returns, or Pyomo's pyomo_create_model(), or the object model.
    Of an AbstractModel it is the instance, if that needs no other data. A file of SMPS
    (.cor, .tim or .sto) is read, not executed.

    Parameters
    ----------
    path : str or path
    first_stage, uncertain : sequence of str, optional
        To annotate it by: names of variables and Params, such as ``'x'`` and ``'x[1]'``,
        or patterns of names such as ``'order*'``.
    otherwise : pair of sequence of str, optional
        Names of single variables and Params, to annotate it by if nothing else does.

    Raises
    ------
    ModelError
        If it is not there, fails, has no model, or one that nothing annotates.
    AnnotationError
        If a name or a pattern stands for nothing.
    """
    path = Path(path)
    if not path.is_file():
        raise _refusal(path, "there is no such file")
    if is_smps_file(path):
        return read_smps(path).model
    with _its_folder_known(path), redirect_stdout(sys.stderr):
        with _complaining(path):
            model = _found(runpy.run_path(str(path), run_name=_NAME))
        if isinstance(model, AbstractModel) and not model.is_constructed():
            model = _instance(model, path)
    if model is None:
        raise _refusal(path, _NO_MODEL)
    if first_stage or uncertain:
        annotate(
            model,
            first_stage_variables=_matching(model, Var, first_stage),
            uncertain_params=_matching(model, Param, uncertain),
        )
    elif not is_annotated(model):
        check_constructed(model)
        if otherwise is None:
            raise _unmarked(model, path)
        annotate(
            model,
            first_stage_variables=_single(model, Var, otherwise[0]),
            uncertain_params=_single(model, Param, otherwise[1]),
        )
    return model


def _found(names: Mapping[str, Any]) -> Any:
    """Return the model among what a file defines."""
    if callable(build := names.get("build")):
        return build()
    if callable(create := names.get("pyomo_create_model")):
        return create(options=Bunch(), model_options=Bunch())
    return names.get("model")


def _instance(model: Any, path: Path) -> BlockData:
    """Return the instance of an AbstractModel by the data in its own declarations."""
    try:
        return model.create_instance()
    except Exception as error:  # its rules may raise anything
        words = " ".join(str(error).split())
        found = (
            f"it is an AbstractModel without all its data ({words}); let build() return "
            "model.create_instance(...)"
        )
        raise _refusal(path, found) from error


def _unmarked(model: BlockData, path: Path) -> ModelError:
    variables = [v.name for v in model.component_objects(Var)]
    params = [p.name for p in model.component_objects(Param) if p.mutable]
    found = (
        "name what is decided now by --first-stage, and what is not known yet by "
        f"--uncertain, or call csg.annotate in '{path}'; its Vars are "
        f"{shortlist(variables) or 'none'}, its mutable Params {shortlist(params) or 'none'}"
    )
    return ModelError(f"'{model.name}' is not annotated", [found])


@contextmanager
def _its_folder_known(path: Path) -> Iterator[None]:
    """Let it import what is beside it, as a script can."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    """Turn whatever the file raises into an error that says where."""
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
        raise _refusal(path, f"{type(error).__name__}{where}: {words}") from error


def _matching(model: BlockData, kind: type, patterns: Sequence[str]) -> list[Any]:
    """Return components for patterns, and names as they are."""
    if not isinstance(model, BlockData):
        return list(patterns)  # which annotate refuses, with what it is
    known = {c.name: c for c in model.component_objects(kind)}
    found: list[Any] = []
    for pattern in patterns:
        if "[" in pattern or not set(pattern) & set("*?"):
            found.append(pattern)  # annotate knows names, slices and near misses
            continue
        names = fnmatch.filter(known, pattern)
        if not names:
            has = ", ".join(known) or "none"
            problem = f"no {kind.__name__} is called like '{pattern}'; there is {has}"
            raise AnnotationError(f"Cannot annotate '{model.name}'", [problem])
        found += [known[name] for name in names]
    return found


def _single(model: BlockData, kind: type, names: Sequence[str]) -> list[Any]:
    """Return elements for their names; where there is none, its name."""
    known = {data.name: data for data in model.component_data_objects(kind)}
    return [known.get(name, name) for name in names]


def _refusal(path: Path, problem: str) -> ModelError:
    return ModelError(f"No model in '{path}'", [problem])
