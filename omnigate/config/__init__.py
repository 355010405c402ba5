"""The config file, the price table and the snapshot that control hands to data."""
