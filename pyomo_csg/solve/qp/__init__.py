"""Convex quadratic programs: solve, certify, search and differentiate."""
