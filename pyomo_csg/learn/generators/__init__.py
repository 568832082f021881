"""Scenario generators made of arrays: from a context to scenarios, without torch."""
