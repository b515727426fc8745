"""The question and the answer: spec, plan, records, gaps, laws and fits, as pure functions on values."""
