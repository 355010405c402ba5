"""Whole planes in one process, without sockets or real time."""
