"""Data sets: bundled, public files under the data root, and the files of a user."""

from tune_vfl.data.loading import load, written_out
from tune_vfl.machine.places import data_root

__all__ = ["data_root", "load", "written_out"]
