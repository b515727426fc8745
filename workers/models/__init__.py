"""The models that are trained: a decoder, and one file for each family of it."""
