"""Tests of omnigate.control."""
