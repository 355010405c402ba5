"""What the protocols of the providers mean: endpoints, usage, model lists, passages."""
