"""The horizontal setting: clients with rows of their own, a server that averages what they train, round by round."""
