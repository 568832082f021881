"""A program written as matrices for SciPy, with no Pyomo: to compare models with."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


class DirectProgram:
    """A minimization whose columns and rows are added one by one."""

    def __init__(self):
        self._columns, self._rows = {}, []

    def column(self, name, cost=0.0, upper=np.inf, integer=False):
        """Add a column of lower bound 0, and return its name."""
        self._columns[name] = (cost, upper, integer)
        return name

    def row(self, coefficients, lower=-np.inf, upper=np.inf):
        """Add a row, by the coefficients of the columns' names."""
        self._rows.append((coefficients, lower, upper))

    def solve(self):
        """Return the optimal value."""
        place = {name: position for position, name in enumerate(self._columns)}
        costs, uppers, integers = map(
            np.array, zip(*self._columns.values(), strict=True)
        )
        matrix = np.zeros((len(self._rows), len(place)))
        for r, (coefficients, _, _) in enumerate(self._rows):
            for name, value in coefficients.items():
                matrix[r, place[name]] += value
        _, lower, upper = zip(*self._rows, strict=True)
        result = milp(
            costs,
            integrality=integers,
            bounds=Bounds(0, uppers),
            constraints=LinearConstraint(matrix, lower, upper),
            options={"mip_rel_gap": 0},
        )
        assert result.status == 0, result.message
        return result.fun
