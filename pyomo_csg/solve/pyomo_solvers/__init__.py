"""Every other solver, through Pyomo."""
