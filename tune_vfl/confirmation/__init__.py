"""Confirmation of a search's Pareto front with fresh seeds, on rows that the search has not used.

``values`` turns records into arrays, ``contest`` chooses the settings that need more seeds, ``jobs`` and ``source`` cut
and queue their trainings, ``answer`` computes the result, ``run`` is the driver. All statistics are those of
:mod:`tune_vfl.statistics`.
"""
