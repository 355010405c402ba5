"""Benchmarks: of the whole gateway, ``python -m bench``, and of parts, ``python -m bench.NAME``."""
