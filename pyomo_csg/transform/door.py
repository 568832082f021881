"""The door of the three transformations: a model, and options by their names."""

from __future__ import annotations

import difflib
from typing import Any

from pyomo.common.config import ConfigDict
from pyomo.core.base.transformation import Transformation

from pyomo_csg.errors import DataError
from pyomo_csg.stages.annotation import refuse_unbuilt


class ProgramTransformation(Transformation):
    """A transformation that speaks for itself where Pyomo's own would fail."""

    CONFIG: ConfigDict

    def apply_to(self, model: Any, **kwds: Any) -> None:
        """Turn the model, in place, into the program."""
        refuse_unbuilt(model)
        super().apply_to(model, **kwds)

    def create_using(self, model: Any, **kwds: Any) -> Any:
        """Return the program, made of a clone of the model."""
        refuse_unbuilt(model)
        return super().create_using(model, **kwds)

    def _config(self, kwds: dict[str, Any]) -> Any:
        """Return the options, or raise a DataError that names what is off."""
        known, problems = list(self.CONFIG), []
        for name in kwds:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"give {known}"
                problems.append(f"there is no option '{name}'; {hint}")
        if problems:
            raise DataError("The options do not fit", problems)
        try:
            return self.CONFIG(kwds)
        except ValueError as error:
            found = " ".join(str(error).split())
            raise DataError("The options do not fit", [found]) from None
