"""Tests of omnigate.gateway."""
