"""The version of this package, for what is written to disk and shown to people."""

VERSION = "0.1.0"
