"""The question and the answer as pure functions on values: spec, plan, records, gaps, fits."""
