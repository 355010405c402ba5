"""What was used and what it cost: the ledger's files, and the sums kept of them in memory.

This page is the document of the files' format.

The ledger is one file today, the *active segment*, named by ``OMNIGATE_LEDGER`` (``ledger.jsonl``
in the state folder), mode 0600. One process writes it, the control plane, and holds a lock
(``flock``) on it while it runs; a second one is refused.

The active segment
==================

Lines of UTF-8 JSON, each one object and ended by one line feed (0x0A), which occurs nowhere else.
One line is one recorded event, in the order of recording. An empty file, and none, is a ledger
without events. ::

    {"v":2,"id":"5f0c…","key_sha256":"9f86…","route_model":"fast","upstream":"openai",
     "target_model":"gpt-4o-mini","status":200,"stream":true,"input_tokens":900,
     "cached_input_tokens":100,"cache_write_input_tokens":0,"output_tokens":250,"cached":false,
     "estimated":false,"latency_ms":1234,"attempts":[{"upstream":"openai","model":"gpt-4o-mini",
     "outcome":"ok","status":200,"duration_ms":1230}],"ts_ms":1795984320125,"endpoint":"chat",
     "cost_usd":0.0002925,"ts":"2026-11-29T20:32:00.125Z",
     "received_at":"2026-11-29T20:32:01.000Z","crc32":"1a2b3c4d"}

(broken here for the page; in the file it is one line)

=================  ===============================================================================
member             meaning
=================  ===============================================================================
the event's own    as :class:`omnigate.events.UsageEvent` says; unknown ones are not kept
``cost_usd``       US dollars, an exact decimal number of at most nine places: the price at the
                   time of recording. It is never computed again.
``ts``             ``ts_ms`` in RFC 3339, UTC, for people
``received_at``    the time of recording in RFC 3339, UTC; its day is the day under which the id is
                   remembered
``v``              the version of the line: 2; absent in version 1, which is read for ever
``crc32``          the CRC-32 of all bytes before ``,"crc32":``, eight small hex digits; the last
                   member. A line of version 2 without it, or with a wrong one, is damaged.
=================  ===============================================================================

A reader needs ``id``, ``key_sha256``, ``route_model``, ``ts_ms``, ``cost_usd`` and ``received_at``;
it takes an absent ``upstream`` for null, an absent count for 0, and leaves what it does not know. A
line is at most :data:`~omnigate.ledger.lines.MAX_LINE_BYTES` long. A line of a later version stops
the start: the file is then left as it is.

Writing
=======

``line, sync, id, total, acknowledge``: batches that wait are written together and synced once
(``fdatasync``); only then are their events counted and the batches acknowledged. After a write or
a sync that failed, the file is cut back to the end of the last synced line before anything else is
written. A file that was moved, replaced or shortened meanwhile takes no batch.

Starting
========

The file is synced, since a killed process may have left lines that never were, and read whole. What
stands behind the last line feed is a torn line: its batch was never acknowledged; it is cut off and
the cut is logged. Any other line that cannot be read is *damaged*: it is logged with its offset,
counted and left where it is, and the start goes on. A line whose id was read before is skipped and
counted.

An event may so be on the disk without having been acknowledged, if the crash came in between. It is
counted; when it is sent again, its id is known.

Ids
===

An id is remembered, in memory, as the first 16 bytes of its SHA-256, under the UTC day of its
``received_at``, for ``retention.ledger_ids_days`` days. Which days are remembered depends on the
day of recording alone, so reading the file back decides as was decided when it was written.
"""
