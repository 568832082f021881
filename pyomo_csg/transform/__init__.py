"""The three programs of a two-stage model, as Pyomo transformations.

Importing this package registers them with Pyomo's ``TransformationFactory``.
"""

from pyomo_csg.transform.transformations import ExtensiveForm, OptSearch, Recourse

__all__ = ["ExtensiveForm", "OptSearch", "Recourse"]
