`GET /admin/requests` finds usage events as far back as the ledger goes, by key, model, upstream, status, time and id, a page at a time with `cursor`; `GET /admin/requests/{id}` shows one.
