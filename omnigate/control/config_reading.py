"""One reading of the config file: its text, the config in it, and what is new about that.

Everything here blocks, on the disk and on seconds of work for a file of megabytes, and is for the
start or for a thread.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Final

import attrs

from omnigate.config.credentials import Credentials, read_credentials
from omnigate.config.file_keys import ResolvedKey, resolve_file_keys
from omnigate.config.schema import MAX_CONFIG_BYTES, Config, ConfigError, load_config
from omnigate.config.structure import Fault
from omnigate.config.values import quoted
from omnigate.control.config_changes import Changes, changes_between
from omnigate.control.gateway_key import GatewayKey
from omnigate.control.keys import made_keys
from omnigate.jobs import age_files
from omnigate.named_files import open_at_once
from omnigate.receipts import signatures

#: A file that was written while it was read is read again, so many times.
MAX_READS: Final = 3

EnvironLookup = Callable[[str], str | None]


@attrs.frozen
class FileStamp:
    """What tells one content of a file from another without reading it."""

    device: int
    inode: int
    mode: int
    size: int
    modified_ns: int
    changed_ns: int

    @property
    def empty(self) -> bool:
        """Whether it is a file with nothing in it, as one is that is about to be written."""
        return stat.S_ISREG(self.mode) and not self.size


@attrs.frozen
class Reading:
    """A good file.

    :ivar keys: the keys of the config with their hashes.
    :ivar gateway_keys: the same, as the control plane keeps all keys.
    :ivar credentials: what the environment holds of the credentials of ``[media]``.
    :ivar sha256: of the text, in hexadecimal digits.
    :ivar changes: what is different from the config that was in force.
    :ivar changed: whether anything is.
    """

    text: str = attrs.field(repr=False)
    config: Config = attrs.field(repr=False)
    keys: tuple[ResolvedKey, ...] = attrs.field(repr=False)
    gateway_keys: tuple[GatewayKey, ...] = attrs.field(repr=False)
    credentials: Credentials = attrs.field(repr=False)
    sha256: str
    changes: Changes
    changed: bool


def read_config(
    path: str,
    environ_lookup: EnvironLookup,
    before: Reading | None,
    refuse_empty: bool = False,
) -> Reading:
    """Read the file and compare it with the config in force.

    :param before: the reading that brought that into force; None where there was none.
    :param refuse_empty: whether a file without a single table is a fault, if there are any in
        force: it is more likely one that somebody is about to write.
    :raises ConfigError: with every fault, those of the environment included.
    """
    old, old_keys = (Config(), ()) if before is None else (before.config, before.keys)
    text = read_config_text(path)
    config = load_config(text)
    if refuse_empty and config == Config() != old:
        message = "holds nothing; if that is meant, have it read by SIGHUP or by POST /admin/reload"
        raise ConfigError([Fault(path, message)])
    found, faults = resolve_file_keys(config, environ_lookup)
    faults = [*faults, *extra_faults(config)]
    if faults:
        raise ConfigError(faults)
    keys = tuple(found)
    changed = (config, keys) != (old, old_keys)
    return Reading(
        text=text,
        config=config,
        keys=keys,
        gateway_keys=made_keys(keys, () if before is None else before.gateway_keys),
        credentials=read_credentials(config, environ_lookup),
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        changes=changes_between(old, old_keys, config, keys) if changed else Changes(),
        changed=changed,
    )


def extra_faults(config: Config) -> list[Fault]:
    """Return what a config asks for and this installation cannot do, for want of an extra."""
    return [*_recipient_faults(config), *_attestation_faults(config)]


def _attestation_faults(config: Config) -> list[Fault]:
    """Return why the answers of attested upstreams could not be judged."""
    if signatures.extra_is_there():
        return []
    return [
        Fault(f"upstreams[{index}].attestation", signatures.REMEDY, quoted(upstream.name))
        for index, upstream in enumerate(config.upstreams)
        if upstream.attestation is not None
    ]


def _recipient_faults(config: Config) -> list[Fault]:
    """Return why outputs could not be encrypted for whom the config says."""
    lists = [("media.age_recipients", config.media.age_recipients)]
    lists += [
        (f"keys[{n}].age_recipients", key.age_recipients) for n, key in enumerate(config.keys)
    ]
    told = ((place, age_files.fault_of(recipients)) for place, recipients in lists)
    return [Fault(place, fault) for place, fault in told if fault]


def stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of the file behind ``path``, or None where there is none to be seen."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def _stamp(found: os.stat_result) -> FileStamp:
    return FileStamp(
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def read_config_text(path: str) -> str:
    """Return the text of a config file of at most :data:`MAX_CONFIG_BYTES`.

    :raises ConfigError: the file is not there, cannot be read, is no regular file, is too long,
        is being written all the time, or is not UTF-8.
    """
    try:
        data = _read_whole(path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        remedy = "OMNIGATE_CONFIG or --config names the file"
        message = f"the config file cannot be read: {reason}; {remedy}"
        raise ConfigError([Fault(path, message)]) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError([Fault(path, f"is longer than {MAX_CONFIG_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Fault(f"line {line}", "is not UTF-8")]) from None


def _read_whole(path: str) -> bytes:
    """Read a file that nobody writes meanwhile, up to one byte more than it may have."""
    for _ in range(MAX_READS):
        with open(path, "rb", opener=open_at_once) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise ConfigError([Fault(path, "is no regular file")])
            data = file.read(MAX_CONFIG_BYTES + 1)
            if _stamp(os.fstat(file.fileno())) == _stamp(before):
                return data
    raise ConfigError([Fault(path, "is being written; have it read again when that is done")])
