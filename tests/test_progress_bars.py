"""Progress bars: for several steps, not for one."""

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg import progress_bars


def test_a_single_decision_shows_no_bar_and_several_do(monkeypatch, capsys):
    monkeypatch.setattr(progress_bars, "_DELAY_SECONDS", 0.0)
    pairs = newsvendor.sample(60, seed=1)
    forest = csg.baselines.ForestWeighted(newsvendor.build(), pairs)
    forest.decide(pairs[0][0])
    assert capsys.readouterr().err == ""
    forest.decide(pairs[0][:2])
    assert "2/2" in capsys.readouterr().err
