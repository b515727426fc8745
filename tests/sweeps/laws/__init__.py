"""Tests of sweeps.laws."""
