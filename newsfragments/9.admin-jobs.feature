``GET /admin/jobs`` finds media jobs of all keys, by key, model and status, with the ids that their providers gave them.
