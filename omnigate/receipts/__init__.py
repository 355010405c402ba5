"""Receipts of attested upstreams: what they signed of an answer, and whether it fits.

``receipts.json`` holds them, one a line, the newest last::

    {"version": 1, "receipts": [
    {"id": "…", "ts_ms": 1790000000000, "verdict": "signed", …},
    …]}

It is replaced whole about a second after a receipt has changed. It holds no content and no key.
"""
