"""Tests of omnigate.workers."""
