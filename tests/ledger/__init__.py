"""Tests of omnigate.ledger."""
