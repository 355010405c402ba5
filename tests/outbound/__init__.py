"""Tests of omnigate.outbound."""
