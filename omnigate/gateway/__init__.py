"""The data plane: what happens to a request."""
