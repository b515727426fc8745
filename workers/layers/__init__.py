"""What a decoder computes between its linear layers, as functions of tensors."""
