"""The data plane on several cores: a parent that owns the port, and workers that serve it."""
