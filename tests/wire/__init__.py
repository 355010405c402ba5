"""Tests of omnigate.wire."""
