"""``python -m bench ledger``: what the ledger costs, and how quick the control plane starts."""
