"""csg.simulate: policies row by row in time, with a state that carries over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyomo.environ as pyo
from pyomo.core.base.block import BlockData
from pyomo.core.expr.numvalue import is_numeric_data

from pyomo_csg.decisions.extrapolation import one_warning
from pyomo_csg.errors import DataError, SolveError, shortlist
from pyomo_csg.evaluation.tables import count_words
from pyomo_csg.learn.tables.column_names import match_columns
from pyomo_csg.learn.tables.date_encoding import date_name, with_date_column
from pyomo_csg.plotting import new_figure
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.stages import MeanCVaR, TwoStageModel
from pyomo_csg.stages.inputs import check_domains
from pyomo_csg.validation import Problems, is_whole

_SUBJECT = "Cannot simulate"
_SOLVER = "appsi_highs"
_ROUNDING = 1e-6  # by which a solver may miss a bound


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """What :func:`simulate` returns; ``print`` it for the mean costs.

    Attributes
    ----------
    table : DataFrame
        One row for each row of the data and each policy: ``row``, ``policy``, ``cost``
        (minus the profit of a model that is maximized), the first-stage decision, and the
        state that the row began with, by their Pyomo names.
    states : tuple of str
        The columns of the state.
    risk : MeanCVaR or None
        The risk measure of the model. The costs in the table are what was paid.
    """

    table: pd.DataFrame
    states: tuple[str, ...]
    risk: MeanCVaR | None = None

    def __repr__(self) -> str:
        policies = count_words(self.table["policy"].nunique(), "policy", "policies")
        rows = count_words(self.table["row"].nunique(), "row", "rows")
        return f"<Simulation of {policies} over {rows}>"

    def __str__(self) -> str:
        costs = self.table.groupby("policy", sort=False)["cost"]
        shown = pd.DataFrame({"mean cost": costs.mean(), "total": costs.sum()})
        if self.risk is not None:
            shown[f"CVaR {self.risk.level:.0%}"] = costs.apply(self.risk.cvar)
        count = self.table["row"].nunique()
        return f"{count} rows in order; lower is better\n{shown.to_string()}"

    def plot(self) -> Any:
        """Return a matplotlib figure: the cumulative cost, and each state, by policy."""
        parts = ("cost", *self.states)
        figure = new_figure(8.0, 2.4 * len(parts))
        axes = figure.subplots(len(parts), sharex=True, squeeze=False)[:, 0]
        for name, rows in self.table.groupby("policy", sort=False):
            for part, ax in zip(parts, axes, strict=True):
                values = rows[part].cumsum() if part == "cost" else rows[part]
                ax.plot(rows["row"].to_numpy(), values.to_numpy(), label=name)
        for part, ax in zip(parts, axes, strict=True):
            ax.set_ylabel("cumulative cost" if part == "cost" else part)
        axes[0].legend()
        axes[-1].set_xlabel("row")
        return figure


def simulate(
    policies: Mapping[str, Any],
    model: BlockData,
    data: pd.DataFrame,
    carry: Mapping[str, Any] | Sequence[tuple[Any, Any]],
    *,
    warmup: int = 0,
    refit: int | None = None,
    progress: bool = True,
) -> Simulation:
    """Simulate policies row by row in the order of time, with a state that carries over.

    In each row, a policy decides in the current state. Then the outcome becomes known and
    the recourse is solved. Its solution gives the state of the next row. All policies face
    the same outcomes, and each has its own state.

    Parameters
    ----------
    policies : mapping of str
        From a name to a policy or baseline, or to a function that takes past rows and
        returns one. Functions need ``warmup``.
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. Known Params in ``carry`` start at their
        values in the model.
    data : DataFrame
        The rows in the order of time: contexts, outcomes, and known Params that are not
        carried, by name.
    carry : mapping of str, or list of pairs
        From the name of a known Param to the Var or Expression of the model whose value is
        the Param's value in the next row, such as ``{"stock0": m.stock_end}`` or
        ``[(m.stock0, m.stock_end)]``: Pyomo's Params cannot be keys of a dict. Indexed
        components pair by their indices.
    warmup : int
        Number of rows at the start that are only history for the first fit.
    refit : int, optional
        Number of rows after which functions are called again. Default: they are called
        once.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Simulation

    Raises
    ------
    DataError
        If an argument or the data are not valid.
    SolveError
        If a program has no solution; its ``case`` is the row.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pyomo.environ as pyo
    >>> import pyomo_csg as csg
    >>> m = pyo.ConcreteModel("shop")
    >>> m.demand = pyo.Param(mutable=True, initialize=5.0)
    >>> m.stock0 = pyo.Param(mutable=True, initialize=0.0)
    >>> m.order = pyo.Var(bounds=(0, 20))
    >>> m.lost = pyo.Var(within=pyo.NonNegativeReals)
    >>> m.stock = pyo.Var(within=pyo.NonNegativeReals)
    >>> m.flow = pyo.Constraint(expr=m.stock - m.lost == m.stock0 + m.order - m.demand)
    >>> m.cost = pyo.Objective(expr=m.order + 0.1 * m.stock + 5 * m.lost)
    >>> csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand,
    ...              known_params=m.stock0)
    >>> days = pd.DataFrame({"day": [0, 1, 2, 3], "demand": [5.0, 7.0, 6.0, 4.0]})
    >>> mean = lambda past: csg.baselines.ExpectedValue(m, past, known={"stock0": (0, 5)})
    >>> found = csg.simulate({"mean": mean}, m, days, {"stock0": m.stock}, warmup=3,
    ...                      progress=False)
    >>> found
    <Simulation of 1 policy over 1 row>
    >>> found.table[["row", "policy", "stock0"]].to_dict("records")
    [{'row': 3, 'policy': 'mean', 'stock0': 0.0}]
    """
    stated = TwoStageModel(model)
    two_stage = stated.plain
    problems = Problems(_SUBJECT)
    pairs = _read_carry(problems, two_stage, carry)
    _check_linear(problems, two_stage)
    _check_policies(problems, policies, warmup, refit)
    table = _read_rows(problems, two_stage, data, pairs, warmup)
    rows = range(warmup, len(table))
    records: list[dict[str, Any]] = []
    with progress_bar("simulate", len(rows) * len(policies), "rows", progress) as bar:
        for name, policy in policies.items():
            trajectory, current = _Trajectory(two_stage, table, pairs), policy
            with one_warning(name, len(rows)):
                for row in rows:
                    is_due = row == warmup or (refit and (row - warmup) % refit == 0)
                    if is_due and not hasattr(policy, "decide"):
                        current = policy(table.iloc[:row])
                    found = trajectory.step(current, row)
                    records.append({"row": table.index[row], "policy": name, **found})
                    bar.update()
    order = np.argsort(np.arange(len(records)) % len(rows), kind="stable")
    in_time = [records[i] for i in order]  # row by row, all policies
    return Simulation(pd.DataFrame(in_time), tuple(pairs), stated.risk)


class _Trajectory:
    """The state of one policy, and the model of a row with its decision fixed."""

    def __init__(
        self, two_stage: TwoStageModel, table: pd.DataFrame, pairs: Mapping[str, Any]
    ):
        self._table, self._sense = table, int(two_stage.sense)
        model = self._model = two_stage.model.clone()
        self._state = {
            name: float(pyo.value(model.find_component(name))) for name in pairs
        }
        self._ends = {
            name: pyo.ComponentUID(end).find_component_on(model)
            for name, end in pairs.items()
        }
        params = [*two_stage.uncertain_params, *two_stage.known_params]
        self._outcomes = [param.name for param in two_stage.uncertain_params]
        self._params = {one.name: model.find_component(one.name) for one in params}
        variables = [one.name for one in two_stage.first_stage_variables]
        self._variables = {name: model.find_component(name) for name in variables}
        self._objective = next(model.component_data_objects(pyo.Objective, active=True))
        self._solver = pyo.SolverFactory(_SOLVER)

    def step(self, policy: Any, row: int) -> dict[str, Any]:
        """Decide for a row, solve its recourse, and update the state."""
        cells = self._table.iloc[row].to_dict()
        context = {k: v for k, v in cells.items() if k not in self._outcomes}
        state = dict(self._state)
        try:
            decision = policy.decide({**context, **state})
        except SolveError as error:
            raise error.replace(case=row) from error
        for name, variable in self._variables.items():
            variable.fix(decision[name])
        for name, param in self._params.items():
            param.set_value(state.get(name, cells.get(name)))
        status = self._solver.solve(self._model, load_solutions=False)
        condition = status.solver.termination_condition
        if condition != pyo.TerminationCondition.optimal:
            detail = "in the recourse of the decision"
            raise SolveError(row, str(condition), detail)
        self._solver.load_vars()
        self._state = {
            name: _within_domain(self._params[name], float(pyo.value(end)), row)
            for name, end in self._ends.items()
        }
        cost = self._sense * float(pyo.value(self._objective))
        chosen = {name: decision[name] for name in self._variables}
        return {"cost": cost, **chosen, **state}


def _within_domain(param: Any, number: float, row: int) -> float:
    """Return the next value of a Param, clipped where the solver misses a bound by rounding."""
    domain = param.parent_component().domain  # of the data's indexed Param
    low, high, _ = domain.get_interval()
    lower, upper = -np.inf if low is None else low, np.inf if high is None else high
    if _ROUNDING * (1 + abs(number)) < max(lower - number, number - upper):
        found = f"after row {row}, '{param.name}' is {number:g}, outside its domain"
        remedy = "bound the Var or Expression that gives its value"
        raise DataError(_SUBJECT, [f"{found} {domain.name}; {remedy}"])
    return float(np.clip(number, lower, upper))


def _read_carry(
    problems: Problems, two_stage: TwoStageModel, carry: Any
) -> dict[str, Any]:
    """Return the component that gives the next value of each carried Param."""
    known = {param.name for param in two_stage.known_params}
    found: dict[str, Any] = {}
    listed = list(carry.items()) if hasattr(carry, "items") else carry
    if (
        not isinstance(listed, list | tuple)
        or not listed
        or not all(map(_is_pair, listed))
    ):
        problems.add(
            f"carry is {carry!r:.80}; give a dict such as {{'stock0': m.stock_end}}"
        )
        listed = []
    for param, end in listed:
        starts, ends = _members(two_stage, param), _members(two_stage, end)
        if not starts or starts.keys() != ends.keys():
            problems.add(
                f"carry pairs {param!s:.60} with {end!s:.60}; give components of the model "
                "with the same indices"
            )
            continue
        for index, start in starts.items():
            if start.name not in known:
                problems.add(
                    f"'{start.name}' is no known number; add it to known_params"
                )
            found[start.name] = ends[index]
    return found


def _check_linear(problems: Problems, two_stage: TwoStageModel) -> None:
    """Record a problem unless the objective is linear, as the solver requires."""
    cost = two_stage.first_stage_cost + two_stage.recourse_cost
    degree = 0 if is_numeric_data(cost) else cost.polynomial_degree()
    if degree not in (0, 1):
        found = f"the objective of '{two_stage.model.name}' is not linear"
        remedy = f"{_SOLVER}, which solves the recourse, needs a linear one"
        problems.add(f"{found}; {remedy}")


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, tuple | list) and len(entry) == 2


def _members(two_stage: TwoStageModel, component: Any) -> dict[Any, Any]:
    """Return a component's data by index; a single one has the index None."""
    if isinstance(component, str):
        component = two_stage.model.find_component(component)
    if component is None or not hasattr(component, "is_indexed"):
        return {}
    if component.is_indexed():
        return dict(component.items())
    return {None: component}


def _check_policies(problems: Problems, policies: Any, warmup: Any, refit: Any) -> None:
    """Record what is wrong with the policies, and with when they are fitted."""
    if not isinstance(policies, Mapping) or not policies:
        problems.add(
            f"policies: {policies!r:.80} was given; give a dict from name to policy"
        )
        policies = {}
    for name, policy in policies.items():
        if not (hasattr(policy, "decide") or callable(policy)):
            problems.add(
                f"policies: '{name}' is a {type(policy).__name__}; give a policy, or a "
                "function from past rows to one"
            )
        elif not hasattr(policy, "decide") and not warmup:
            problems.add(
                f"policies: '{name}' is a function of past rows, of which there are none; "
                "give warmup=, such as 100"
            )
    if refit is not None:
        problems.check_counts(refit=refit)


def _read_rows(
    problems: Problems,
    two_stage: TwoStageModel,
    data: Any,
    pairs: Mapping[str, Any],
    warmup: Any,
) -> pd.DataFrame:
    """Return the rows with outcomes under Pyomo's names, or raise all problems."""
    if not isinstance(data, pd.DataFrame):
        problems.add(f"data is a {type(data).__name__}; give a DataFrame")
        problems.raise_any()
    outcomes = [param.name for param in two_stage.uncertain_params]
    known = [param.name for param in two_stage.known_params]
    table = problems.check("data", match_columns, data, [*outcomes, *known])
    problems.raise_any()
    needed = [*outcomes, *(name for name in known if name not in pairs)]
    if missing := [name for name in needed if name not in table]:
        problems.add(f"data has no column for {shortlist(missing)}; add it")
    if not (is_whole(warmup) and 0 <= warmup < len(table)):
        problems.add(
            f"warmup is {warmup!r:.40}; give a whole number below {len(table)}, the "
            "number of rows"
        )
    problems.raise_any()
    params = [*two_stage.uncertain_params, *two_stage.known_params]
    params = [param for param in params if param.name in needed]
    numbers = table[[param.name for param in params]]
    cells = numbers.apply(pd.to_numeric, errors="coerce").to_numpy(float)
    check_domains(params, cells, _SUBJECT, "row")
    return with_date_column(table, date_name(table))
