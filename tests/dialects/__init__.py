"""Tests of omnigate.dialects."""
