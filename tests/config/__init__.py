"""Tests of omnigate.config."""
