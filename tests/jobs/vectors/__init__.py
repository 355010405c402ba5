"""Golden cases of media jobs: what is sent and answered on the way, and what must come of it.

One file for each adapter, ``common.json`` for what is the same everywhere, and those of webhooks,
addresses, signatures, receipts and age. :mod:`tests.jobs.cases` reads them.
"""
