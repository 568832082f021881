"""Two-stage models as a Pyomo user would write them: the paper's four and classics."""
