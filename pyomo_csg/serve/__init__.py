"""Decisions over HTTP: the application and its server."""
