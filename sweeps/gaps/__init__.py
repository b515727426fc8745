"""Gaps of recipes to BF16: paired, summarised, and what their noise lets them say."""
