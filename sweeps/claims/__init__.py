"""Claims: named statements over the gaps of a sweep, and what its runs say of each."""
