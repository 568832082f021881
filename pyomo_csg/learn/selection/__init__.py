"""The plan of a fit, its folds and scores, and searches over whole fits."""
