"""Point forecasts of the outcomes given a context, each with predictions out of fold."""
