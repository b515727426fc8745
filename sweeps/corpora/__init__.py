"""Corpora: documents out of files, token shards and data sets, pinned by hash and split by it."""
