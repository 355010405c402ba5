"""``python -m bench soak``: hours of bad days in minutes, and whether anything is left behind.

Both planes run as real processes. Clients and providers misbehave at random, the control plane is
restarted and killed, files are rotated; meanwhile each of the four parties keeps its own books: the
clients, the providers, the access log and the ledger. At the end the books are compared request by
request, and the planes must be as small and as idle as they were before.
"""
