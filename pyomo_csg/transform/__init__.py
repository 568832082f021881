"""The three programs of a two-stage model, as Pyomo transformations.

Importing this package registers them with Pyomo's ``TransformationFactory``.
"""

from pyomo_csg.transform.extensive_form import ExtensiveForm
from pyomo_csg.transform.opt_search import OptSearch
from pyomo_csg.transform.recourse import Recourse

__all__ = ["ExtensiveForm", "OptSearch", "Recourse"]
