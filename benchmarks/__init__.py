"""What the kernels cost: throughput, training steps, and peers on the same tensor."""
