"""Tests for the pages of the manual."""
