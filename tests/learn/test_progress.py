"""What a fit reports while it runs."""

from pyomo_csg.learn.progress import TrainingLog


def test_a_callback_that_changes_its_entry_does_not_change_what_is_kept():
    log = TrainingLog(callback=dict.clear)

    log.record("mmd", 1, loss=0.5)

    assert log.entries == [{"stage": "mmd", "step": 1, "loss": 0.5}]
