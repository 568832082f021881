"""The objective, split term by term into h(y) and q(y, z, omega)."""

from __future__ import annotations

from typing import Any

from pyomo.common.numeric_types import native_numeric_types
from pyomo.core.expr import numeric_expr as ex

from pyomo_csg.stages.incidence import Uncertainty


def split_cost(expr: Any, uncertainty: Uncertainty) -> tuple[Any, Any]:
    """Split an expression into the part of the first stage and that of the recourse.

    A term that touches a recourse variable or an uncertain Param is recourse. Sums are
    followed through negations, constant factors and named Expressions; an expression
    that lies on one side whole is returned as it stands.

    Returns
    -------
    first_stage, recourse : expressions whose sum is ``expr``
    """
    try:
        return _split(expr, uncertainty)
    except RecursionError:  # a very long chain of named Expressions
        return (0, expr) if uncertainty.touches(expr) else (expr, 0)


def _split(expr: Any, uncertainty: Uncertainty) -> tuple[Any, Any]:
    if not uncertainty.touches(expr):
        return expr, 0
    terms = _terms(expr, uncertainty)
    if terms is None:
        return 0, expr
    sides = [_split(term, uncertainty) for term in terms]
    first_stage = [h for h, _ in sides if not is_zero(h)]
    if not first_stage:
        return 0, expr
    recourse = [q for _, q in sides if not is_zero(q)]
    return ex.SumExpression(first_stage), ex.SumExpression(recourse)


def is_zero(expr: Any) -> bool:
    """Whether the expression is the plain number 0."""
    return expr.__class__ in native_numeric_types and expr == 0


def _terms(expr: Any, uncertainty: Uncertainty) -> list[Any] | None:
    """Return the summands of an expression; None where it is not a sum."""
    if not expr.is_expression_type():
        return None
    if isinstance(expr, ex.SumExpression):
        return list(expr.args)
    if expr.is_named_expression_type():
        return _scaled(expr.args[0], uncertainty, lambda term: term)
    if isinstance(expr, ex.NegationExpression):
        return _scaled(expr.args[0], uncertainty, lambda term: -term)
    if isinstance(expr, ex.DivisionExpression):
        above, below = expr.args
        if _is_constant(below, uncertainty):
            return _scaled(above, uncertainty, lambda term: term / below)
    elif isinstance(expr, ex.ProductExpression):
        for factor, other in (expr.args, expr.args[::-1]):
            if _is_constant(factor, uncertainty):
                return _scaled(other, uncertainty, lambda term, c=factor: c * term)
    return None


def _scaled(inner: Any, uncertainty: Uncertainty, scale: Any) -> list[Any] | None:
    if inner.__class__ in native_numeric_types:
        return None
    terms = _terms(inner, uncertainty)
    return None if terms is None else [scale(term) for term in terms]


def _is_constant(factor: Any, uncertainty: Uncertainty) -> bool:
    if factor.__class__ in native_numeric_types:
        return True
    return not factor.is_potentially_variable() and not uncertainty.touches(factor)
