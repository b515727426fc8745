"""Carrying one run out: model, data, training loop, checkpoints, MLflow mirror and executors."""
