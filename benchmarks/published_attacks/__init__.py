"""Published attacks on labels that are not part of the program, a file each, measured beside `default`."""
