Keys may be held to a number of open media jobs and of jobs a day (``max_open_jobs``, ``max_jobs_per_day``), and may have their outputs encrypted for recipients of age.
