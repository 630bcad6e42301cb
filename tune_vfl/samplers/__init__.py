"""Samplers: how a search chooses what to try next. One file each."""
