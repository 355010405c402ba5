"""Tests; the folders mirror ``omnigate/``."""
