"""Baselines that train a model of their own."""
