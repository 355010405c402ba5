``omnigate jobs list|show|cancel|webhook`` shows media jobs of all keys, cancels one, and sends its
webhook once more; so does the admin API, under ``/admin/jobs``. Both are lines of the audit log.
