"""Stores started anew on every state of the disk that a crash may leave."""
