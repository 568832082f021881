"""The paper's bounds, term by term."""
