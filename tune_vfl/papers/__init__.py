"""Published tables of the papers as data, the evaluations behind their cells, and the verdict on each."""
