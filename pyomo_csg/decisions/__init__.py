"""Decision, and the base class of policies and baselines."""
