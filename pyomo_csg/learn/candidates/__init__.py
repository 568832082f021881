"""The candidates of ``'auto'``: distributions reduced to K, atoms, and trained networks."""
