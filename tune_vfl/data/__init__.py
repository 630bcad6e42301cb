"""Data sets: bundled, public files under the data root, and the files of a user."""
