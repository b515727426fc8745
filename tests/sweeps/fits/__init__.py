"""Tests of sweeps.fits."""
