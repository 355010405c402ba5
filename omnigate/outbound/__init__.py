"""Requests to addresses that somebody else chose, and to providers that the operator named."""
