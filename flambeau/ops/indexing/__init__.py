"""Indexing, gather and scatter, masks and embeddings."""
