"""The model zoo: in a checkout, the folder ``models`` beside the package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# The build puts the files of models/ in place of this one (package_dir in setup.cfg).
_models = Path(__file__).parents[2] / "models"
_spec = spec_from_file_location(
    __name__, _models / "__init__.py", submodule_search_locations=[str(_models)]
)
if _spec is None or _spec.loader is None:
    raise ImportError(f"{_models} holds the model zoo, but it cannot be read")
sys.modules[__name__] = module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[__name__])
