"""A self-hosted gateway between applications and model providers."""

__version__ = "0.1.0"
