import torch

from workers.layers.norm import RMSNorm


def test_norm_gives_rows_of_unit_mean_square_times_the_gain():
    norm = RMSNorm(32)
    with torch.no_grad():
        norm.weight.fill_(3.0)
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(0)) * 100
    torch.testing.assert_close(norm(x).square().mean(-1), torch.full((5,), 9.0))
