"""What was used and what it cost: the ledger's files, and the sums kept of them in memory.

The formats in short; ``docs/ledger.md`` has them byte by byte, with examples, and says how the
files are looked after. Lines are the truth, and everything else is made of them.

====================================  ============================================================
file                                  what it is
====================================  ============================================================
``ledger.jsonl``                      the active segment: a line for each recorded event
``ledger.000001.jsonl`` …             sealed segments, the older lines; never written again
``ledger.snapshot``                   all sums up to a position in the segments
``ledger.snapshot.prev``              the snapshot before that, the spare
``ledger.snapshot.tmp``               a snapshot being written; never read
``ledger.ids.2026-11-30`` …           the ids recorded on that UTC day
``ledger.ids.2026-11-30.table`` …     the same as a table, derived
====================================  ============================================================

*Lines* (version 2, :mod:`~omnigate.ledger.lines`) are JSON objects, ended by a line feed: ``v``,
the members of :class:`omnigate.events.UsageEvent`, then ``cost_usd`` (exact, never computed again),
``ts``, ``received_at``, and last ``crc32``, the CRC-32 of all bytes before ``,"crc32":``. Lines of
version 1, without ``v`` and ``crc32``, are read for ever.

*Snapshots* (version 1, :mod:`~omnigate.ledger.snapshots`) are text: ``omnigate-ledger-snapshot 1``,
the SHA-256 of what follows the second line, a head with the position, the sealed segments with
their SHA-256 and the records of each id file, and a JSON array for each row
(:mod:`~omnigate.ledger.snapshot_rows`).

*Id files* (version 1, :mod:`~omnigate.ledger.id_file`) are records of 16 bytes: ``omnigate-ids 1``
and CR LF, then the first half of each id's SHA-256, in the order of recording. *Tables* (version 1,
:mod:`~omnigate.ledger.id_table`) begin with ``omnigate-id-table 1``.

A file of a later version stops the start and is left as it is. ``tests/ledger/first`` has files as
the first versions wrote them.

Order of writes
===============

Line, sync, id, total, acknowledgement. Batches that wait are written together and synced once
(``fdatasync``); only then are their events counted and acknowledged. After a write or a sync that
failed, the file is cut back to the end of the last synced line before anything else is written. An
event may so be on the disk without having been acknowledged, if a crash came in between: it is
counted at the start, and when it is sent again its id is known.

A segment is sealed by one rename; a crash behind it leaves no active file, which is an empty one. A
snapshot is written under another name and synced, the old one becomes the spare, the new one takes
its place, and the folder is synced. The id files are synced before the snapshot that tells their
lengths, and cut to these at a start; the lines behind the snapshot add their ids again. What is
behind the last line feed of the active segment is cut off at a start; any other line that cannot be
read is damaged, logged with its place, and left where it is.
"""
