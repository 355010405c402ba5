"""The control plane: config, keys, administration, metrics."""
