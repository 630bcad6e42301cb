"""The version of this package, for what is written to disk and shown to people; pyproject.toml reads it here."""

VERSION = "0.2.0.dev0"
