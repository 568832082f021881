"""Conditional distributions of the outcomes given a context, and distances between distributions."""
