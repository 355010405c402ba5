"""The media providers, each in a module of its own; :mod:`.registry` has them all."""
