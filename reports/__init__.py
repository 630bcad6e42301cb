"""What a person looks at: figures, tables and pages, each computed first and drawn second."""
