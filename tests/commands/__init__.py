"""Tests for omnigate.commands."""
