"""csg.TwoStageModel: a validated annotated model and its two stages."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyomo.common.enums import ObjectiveSense
from pyomo.core.base.block import BlockData
from pyomo.core.base.component import ComponentData

from pyomo_csg.errors import ModelError
from pyomo_csg.notebook import card
from pyomo_csg.stages import model_checks
from pyomo_csg.stages.annotation import (
    FIRST_STAGE,
    KNOWN,
    UNCERTAIN,
    check_constructed,
    read_annotation,
    read_risk,
    state_risk,
    withdraw_risk,
)
from pyomo_csg.stages.stage_inference import (
    FIRST,
    RECOURSE,
    Row,
    Uncertainty,
    constraint_rows,
    expression_row,
    incidence_graph,
    is_zero,
    split_cost,
    unique,
)
from pyomo_csg.stages.summary import draw, summarize

if TYPE_CHECKING:
    import networkx as nx


class TwoStageModel:
    """An annotated model, validated, with the stage of each of its parts.

    The stage of every constraint and term of the objective is inferred: it is recourse if
    it refers to a recourse variable or an uncertain Param. After a change to the model,
    create the view again.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`.

    Attributes
    ----------
    model : ConcreteModel
        With a risk measure, a copy of the model that states it: the Block ``risk`` holds
        the plain ``cost``, the first-stage variable ``value_at_risk``, and the recourse
        variable ``excess``.
    objective : ObjectiveData
        The active objective.
    risk : MeanCVaR or None
    quantile : VarData or None
        The value at risk, which is the last first-stage variable of a model with risk.
    uncertainty : Uncertainty
        Its ``touches(expr)`` says whether an expression belongs to the recourse.
    sense : ObjectiveSense
    first_stage_variables, recourse_variables : list of VarData
    uncertain_params : list of ParamData
        In the order of the columns of every scenario array.
    known_params : list of ParamData
        In the order of the columns of every array of known numbers.
    first_stage_constraints, recourse_constraints : list of ComponentData
    first_stage_cost, recourse_cost : expressions
        h(y) and q(y, z, omega), in the model's own sense; their sum is the objective.

    Raises
    ------
    ModelError
        Listing every problem found.

    Examples
    --------
    >>> from pyomo_csg.zoo import newsvendor
    >>> import pyomo_csg as csg
    >>> print(csg.TwoStageModel(newsvendor.build()))
    Two-stage model 'newsvendor', minimize
                     first stage  recourse
      variables                1         2
      constraints              0         2
    <BLANKLINE>
      first-stage variables  order
      uncertain numbers      demand in NonNegativeReals, now 15.1
      h(y)                   order
      q(y, z, omega)         -1.05*sold - 0.1*salvaged
    """

    def __init__(self, model: BlockData):
        check_constructed(model)
        self.risk, block = read_risk(model)
        if self.risk is not None and block is None:
            model = model.clone()
            state_risk(model)
            _, block = read_risk(model)
        self.quantile = None if block is None else block.value_at_risk
        objectives = model_checks.active_objectives(model)
        structure = [
            *model_checks.objective_problems(objectives),
            *model_checks.unknown_component_problems(model),
        ]
        annotation = list(model_checks.annotation_problems(model))
        if annotation:
            self._raise_problems(model, annotation + structure)
        self.model = model
        self.first_stage_variables: list[Any] = (
            read_annotation(model, FIRST_STAGE) or []
        )
        self.uncertain_params: list[Any] = read_annotation(model, UNCERTAIN) or []
        self.known_params: list[Any] = read_annotation(model, KNOWN) or []
        self._is_known = Uncertainty([], self.known_params).touches
        self.uncertainty = Uncertainty(
            self.first_stage_variables, self.uncertain_params
        )
        self._rows = list(constraint_rows(model, self.uncertainty))
        costs = [split_cost(o.expr, self.uncertainty) for o in objectives]
        for objective, sides in zip(objectives, costs, strict=True):
            self._rows += self._cost_rows(objective, sides)
        variables = model_checks.model_variables(model, self._rows)
        bounds = self._bound_rows(variables)
        self._raise_problems(
            model,
            [
                *structure,
                *model_checks.foreign_problems(model, self._rows),
                *model_checks.param_problems(
                    self.uncertain_params, self.known_params, self._rows + bounds
                ),
                *model_checks.variable_problems(
                    variables, self.first_stage_variables, self._rows
                ),
            ],
        )
        self._rows += bounds
        self.objective: ComponentData = objectives[0]
        self.sense: ObjectiveSense = self.objective.sense
        self.recourse_variables = [v for v in variables if self.uncertainty.touches(v)]
        ((self.first_stage_cost, self.recourse_cost),) = costs

    @property
    def integer(self) -> bool:
        """Whether some variable of either stage is not continuous."""
        variables = (*self.first_stage_variables, *self.recourse_variables)
        return any(not variable.is_continuous() for variable in variables)

    def has_moving_data(self, bound: Any) -> bool:
        """Whether a bound depends on an uncertain or a known Param."""
        return self.uncertainty.touches(bound) or self._is_known(bound)

    def copy(self) -> TwoStageModel:
        """Return the view of a copy of the model."""
        return TwoStageModel(self.model.clone())

    @cached_property
    def plain(self) -> TwoStageModel:
        """The model without its risk measure: its objective is what a decision costs."""
        if self.risk is None:
            return self
        model = self.model.clone()
        withdraw_risk(model, forget=True)
        return TwoStageModel(model)

    @cached_property
    def first_stage_constraints(self) -> list[Any]:
        """Active constraints on first-stage variables and certain data alone."""
        return self._constraints(FIRST)

    @cached_property
    def recourse_constraints(self) -> list[Any]:
        """Active constraints with a recourse variable or an uncertain Param."""
        return self._constraints(RECOURSE)

    @cached_property
    def uncertain_bounds(self) -> list[Any]:
        """Variables, of either stage, that have an uncertain Param in a bound."""
        return self._bounded(RECOURSE)

    @cached_property
    def known_bounds(self) -> list[Any]:
        """Variables with a bound that depends on known Params and no uncertain one."""
        return self._bounded(FIRST)

    @cached_property
    def graph(self) -> nx.Graph:
        """The graph of constraints and cost terms, with their variables and Params.

        Nodes have Pyomo's names; their attributes are ``kind`` (``'variable'``,
        ``'parameter'``, ``'constraint'``, ``'bound'`` or ``'cost'``), ``stage``
        (``'first'`` or ``'recourse'``) and ``component``.
        """
        return incidence_graph(
            self._rows,
            {FIRST: self.first_stage_variables, RECOURSE: self.recourse_variables},
            {RECOURSE: self.uncertain_params, FIRST: self.known_params},
        )

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the graph of a small model into a file.

        Parameters
        ----------
        path : str or path
            The extension sets the format (``.png``, ``.svg``, ``.pdf``).

        Raises
        ------
        DataError
            If the model is too large for a readable drawing.
        """
        draw(self.graph, path, self.model.name)

    def to_mpisppy(
        self, scenarios: Any, weights: Any = None
    ) -> tuple[Callable[..., BlockData], list[str], dict[str, Any]]:
        """Return the model on some scenarios in the form that mpi-sppy expects.

        Parameters
        ----------
        scenarios : array (K, p) or DataFrame
            A DataFrame has one column for each uncertain number, by its Pyomo name. A
            text index names the scenarios.
        weights : array (K,), optional
            Probabilities that sum to 1. Default: 1/K each.

        Returns
        -------
        scenario_creator : callable
        names : list of str
        kwargs : dict
            The arguments ``scenario_creator``, ``all_scenario_names`` and
            ``scenario_creator_kwargs`` of ``ExtensiveForm``, ``PH``, ``LShapedMethod``
            and others. They can be pickled if the model can; cloudpickle supports lambdas.

        Raises
        ------
        DataError
            If the scenarios or weights do not fit.
        CsgError
            If mpi-sppy is not installed (``pip install pyomo-csg[mpi]``).

        Examples
        --------
        >>> import pyomo_csg as csg
        >>> from pyomo_csg.zoo import farmer
        >>> two_stage = csg.TwoStageModel(farmer.build())
        >>> creator, names, kwargs = two_stage.to_mpisppy(farmer.scenarios(3))
        >>> names
        ['scenario1', 'scenario2', 'scenario3']
        >>> kwargs["outcomes"]["scenario1"]
        [2.0, 2.4000000000000004, 16.0]
        """
        from pyomo_csg.interop.mpisppy import export

        return export(self, scenarios, weights)

    def __str__(self) -> str:
        return summarize(self)

    def __repr__(self) -> str:
        return (
            f"<TwoStageModel of '{self.model.name}': {len(self.first_stage_variables)} "
            f"first-stage and {len(self.recourse_variables)} recourse variables, "
            f"{len(self.uncertain_params)} uncertain numbers>"
        )

    def _repr_html_(self) -> str:
        title, *lines = summarize(self).splitlines()
        return card(title, text="\n".join(lines))

    def _bounded(self, stage: str) -> list[Any]:
        return list(
            unique(
                row.component
                for row in self._rows
                if row.kind == "bound" and row.stage == stage
            )
        )

    def _constraints(self, stage: str) -> list[Any]:
        return [
            row.component
            for row in self._rows
            if row.kind == "constraint" and row.stage == stage
        ]

    def _cost_rows(self, objective: ComponentData, sides: tuple[Any, Any]) -> list[Row]:
        labels = (("first-stage cost", FIRST), ("recourse cost", RECOURSE))
        return [
            expression_row(
                f"{objective.name} ({label})", "cost", objective, stage, expr
            )
            for (label, stage), expr in zip(labels, sides, strict=True)
            if not is_zero(expr)
        ]

    def _bound_rows(self, variables: list[Any]) -> list[Row]:
        """Return rows for the bounds that depend on an uncertain or known Param."""
        rows = []
        for v in variables:
            for side, bound in (("lower", v.lower), ("upper", v.upper)):
                if self.has_moving_data(bound):
                    stage = RECOURSE if self.uncertainty.touches(bound) else FIRST
                    name = f"{v.name} ({side} bound)"
                    rows.append(expression_row(name, "bound", v, stage, v + bound))
        return rows

    @staticmethod
    def _raise_problems(model: BlockData, problems: list[str]) -> None:
        if problems:
            raise ModelError(
                f"'{model.name}' is not a usable two-stage model", problems
            )
