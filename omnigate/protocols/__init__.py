"""Twisted Protocols of the data plane: clients, upstreams, relay, pool."""
