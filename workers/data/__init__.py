"""Data of a run: tokens of a pinned corpus, and batches as a pure function of (seed, step)."""
