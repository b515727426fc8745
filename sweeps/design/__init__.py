"""Planning: what a design can tell before it is run, and which runs would tell more."""
