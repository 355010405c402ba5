"""Bytes in, facts out: HTTP heads, targets, bodies, event streams, JSON scans; no I/O."""
