`omnigate check` notes a model that its media provider cannot be asked for.
