"""What compares candidates: the plan of a fit, its folds, scores, and the search of settings."""
