"""Tests of omnigate.protocols."""
