"""Reading files: formats, text, pictures, and what loaders of one kind share."""
