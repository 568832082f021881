"""The annotated model as arrays: coefficients as functions of the uncertain data."""
