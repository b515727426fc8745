"""The device that everything here computes on."""

import torch


def device_at_hand() -> torch.device:
    """The GPU that this process sees first, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
