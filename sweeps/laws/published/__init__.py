"""Published laws of a format's gap with their constants: predictions to hold against the data."""
