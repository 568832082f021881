"""Fits by method: the candidates of ``'auto'``, single methods, and the choice of K."""
