"""Linear programs on persistent HiGHS objects, with certificates and gradients."""
