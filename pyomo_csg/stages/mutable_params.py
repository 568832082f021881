"""Params that are built mutable, whatever their declaration says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyomo.core.base.param import Param
from pyomo.core.base.range import NumericRange
from pyomo.core.base.set import RangeSet, SetData

from pyomo_csg.stages.checks import is_discrete


@contextmanager
def mutable_params(names: Collection[str]) -> Iterator[None]:
    """Construct the Params of these names mutable, and without gaps in their domains.

    An AbstractModel constructs its Params anew in each instance, so that this reaches
    them too, wherever they were declared.
    """
    construct = Param.construct

    def construct_mutable(param: Any, data: Any = None) -> None:
        if not param.is_constructed() and param.local_name in names:
            param._mutable = True
            param.domain = _without_gaps(param.domain)
        construct(param, data)

    Param.construct = construct_mutable
    try:
        yield
    finally:
        Param.construct = construct


def _without_gaps(domain: SetData) -> SetData:
    """Return the interval that a discrete domain spans; others as they are."""
    if not is_discrete(domain):
        return domain
    low, high, _ = domain.get_interval()
    whole = NumericRange(low, high, 0)
    return RangeSet(ranges=[whole], name=str(whole))
