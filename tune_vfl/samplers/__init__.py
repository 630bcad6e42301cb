"""Samplers: the choice of the next parameters in a search. One sampler, one file."""
