"""The two front doors: HTTP and the terminal."""
