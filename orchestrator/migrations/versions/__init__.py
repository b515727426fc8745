"""One file for each revision of the schema, oldest first."""
