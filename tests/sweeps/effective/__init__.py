"""Tests of sweeps.effective."""
