"""Tests of gaps: pairs, intervals, noise and power."""
