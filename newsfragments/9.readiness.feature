No media job is begun, and paid for, while the bucket does not take files or its disk has less than 64 MiB free; the log says why, at the start already.
