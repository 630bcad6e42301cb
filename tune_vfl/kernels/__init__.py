"""Training steps of plain stacked layers without autograd between the layers."""
