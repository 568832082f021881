"""Progress bars: for several steps, not for one."""

import numpy as np

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg import progress_bars


def test_a_single_decision_shows_no_bar_and_several_do(monkeypatch, capsys):
    monkeypatch.setattr(progress_bars, "_DELAY_SECONDS", 0.0)
    oracle = csg.Oracle(newsvendor.build())
    scenarios = np.array([[[10.0], [20.0]], [[12.0], [18.0]]])
    oracle.solve(scenarios[:1], progress=True)
    assert capsys.readouterr().err == ""
    oracle.solve(scenarios, progress=True)
    assert "2/2" in capsys.readouterr().err
