"""The machine under it all: files, places, the process that trains, libraries that need help to be imported."""
