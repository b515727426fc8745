"""The checks of a preflight: each runs on a device and says what it saw there."""
