"""csg.fit, the policy it returns, and its file."""
