"""Tests of omnigate.jobs."""
