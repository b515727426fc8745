"""Tables in and out: run files of anyone to points, results to files with a dictionary."""
