"""What a fit tells while it is under way."""

from pyomo_csg.learn.progress import Journal


def test_a_callback_that_changes_its_entry_does_not_change_what_is_kept():
    journal = Journal(callback=dict.clear)

    journal.note("mmd", 1, loss=0.5)

    assert journal.entries == [{"stage": "mmd", "step": 1, "loss": 0.5}]
