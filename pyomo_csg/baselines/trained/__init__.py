"""Baselines that train a network, a forest or a map."""
