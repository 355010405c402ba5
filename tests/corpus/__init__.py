"""Hostile inputs, each named after the attack."""
