"""Candidates, cross-validated scores, and searches over whole fits."""
