"""What a format is worth in parameters, data and compute of BF16, each number with its interval."""
