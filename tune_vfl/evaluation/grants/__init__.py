"""What an attack's threat model may grant it: one grant, one file."""
