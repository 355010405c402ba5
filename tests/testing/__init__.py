"""Tests of omnigate.testing."""
