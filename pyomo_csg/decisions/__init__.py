"""Decisions, and the base class of everything that makes them."""
