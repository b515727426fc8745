"""Tests of reading run files, exporting results and keeping fits."""
