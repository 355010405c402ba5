"""The media providers that are known, each in a module of its own; see :mod:`.base`."""
