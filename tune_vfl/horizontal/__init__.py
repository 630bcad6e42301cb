"""The horizontal setting: clients with rows of their own, and a server that averages their updates in rounds."""
