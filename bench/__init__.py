"""Benchmarks of omnigate's own parts, run as ``python -m bench.NAME``; no network, no clients."""
