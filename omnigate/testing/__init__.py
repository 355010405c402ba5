"""Fakes that ship: providers, disks, clocks and networks for tests and for the demo."""
