"""Tests of omnigate.jobs.adapters."""
