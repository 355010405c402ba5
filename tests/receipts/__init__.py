"""Tests of omnigate.receipts."""
