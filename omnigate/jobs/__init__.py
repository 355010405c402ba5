"""Media jobs: work at providers that takes seconds to minutes, kept until it is done.

Files, all beside each other and to be backed up together:

``jobs.jsonl``
    The job log, one JSON object a line: a job whole when it is made, then what changes of it, and
    what was removed; see :mod:`omnigate.jobs.job_lines`. A line is on the disk before anybody is
    told of it. It is written anew, one line a job, at a start that finds more lines than jobs,
    after a retention sweep that removed jobs, and once so many lines were appended since that
    it pays (:data:`~omnigate.jobs.job_compaction.MIN_LINES`).
``jobs.jsonl.inputs/JOB.json``
    The input of a job, where it is longer than 8 KiB as JSON; just as the client wrote it. See
    :mod:`omnigate.jobs.input_files`.
``jobs.jsonl.damaged``
    Lines of the log that could not be read at a start, for a person to look at; nothing reads it.
    See :mod:`omnigate.jobs.job_replay` for what becomes of their jobs.
``jobs.jsonl.new.tmp``
    A log that is being written anew; a start removes what is left of one.
"""
