"""The Ray Tune trainables: a pack of trials in, an outcome per trial out."""
