"""How numbers are rounded: grids, recipes, the quantized linear layer. Knows nothing of sweeps."""
