"""Tests of the Messages dialect."""
