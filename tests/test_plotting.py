"""Without matplotlib all else works, and a picture says what to install."""

import subprocess
import sys

SCRIPT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())  # as if it were not installed

import pyomo_csg as csg
from models import newsvendor
two_stage = csg.TwoStageModel(newsvendor.build())
try:
    two_stage.draw(sys.argv[1])
except ImportError as error:
    print(error)
"""


def test_a_picture_without_matplotlib_names_the_extra(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "graph.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install pyomo-csg[plots]" in done.stdout
