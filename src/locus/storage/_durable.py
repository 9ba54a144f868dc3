"""Files that are whole and on the disk, or not there: temporary names, locks, fsync, and what errors mean."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from locus._ids import new_token
from locus.errors import SetupError, UnavailableError

try:
    import fcntl
except ImportError as missing:  # pragma: no cover  # Windows
    raise SetupError("file storage needs the file locks of Linux or macOS; use sqlite:/// here") from missing

__all__ = [
    "TEMPORARY",
    "discard",
    "locked",
    "make_directories",
    "publish",
    "read_file",
    "sweep",
    "sync_directory",
    "temporary",
    "translated",
]

TEMPORARY = "+tmp-"
"""How the names of unfinished files begin. No encoded name or sort holds a `+`."""

_LOCK = "+lock"
_LEFT_BEHIND = 3600.0  # seconds after which a temporary file has no writer any more
_PATIENCE = 30.0
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache

_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "raise the quota or free some space",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give this user read and write access",
    errno.EPERM: "give this user read and write access",
    errno.EIO: "check the disk",
    errno.EFBIG: "raise the limit of file size",
    errno.EMFILE: "raise the limit of open files",
    errno.ENFILE: "raise the limit of open files",
}


@contextlib.contextmanager
def translated(place: str | Path) -> Iterator[None]:
    """Turn what the system says into an error that names the place and the way out."""
    try:
        yield
    except OSError as error:
        at = error.filename or place
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise SetupError(f"{at} is a file where a directory is needed; choose another base_dir") from error
        advice = _ADVICE.get(error.errno or 0, "try again")
        raise UnavailableError(f"{at}: {error.strerror or error}; {advice}") from error


def read_file(path: str) -> bytes | None:
    """All of a file; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        chunks = [os.read(fd, 1 << 16)]
        while chunks[-1]:
            chunks.append(os.read(fd, 1 << 22))
        return b"".join(chunks)
    finally:
        os.close(fd)


@contextlib.contextmanager
def temporary(directory: str, content: bytes) -> Iterator[str]:
    """A new file with `content`, on the disk under a temporary name, which is gone afterwards."""
    path = f"{directory}/{TEMPORARY}{new_token()}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            _sync(fd)
        finally:
            os.close(fd)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def publish(temporary_path: str, path: str, *, replace: bool) -> bool:
    """Give a finished file its name; False if the name is taken and `replace` is not asked for."""
    if replace:
        os.rename(temporary_path, path)
        return True
    try:
        os.link(temporary_path, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        if os.path.lexists(path):
            return False
        os.rename(temporary_path, path)  # no hard links on this filesystem: the caller's lock has to do
    return True


def sync_directory(path: str) -> int:
    """Make the names in a directory durable; returns its inode number."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(fd)
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def make_directories(path: str) -> None:
    """Make a directory and those above it, each on the disk before what is in it."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path) or "."
    make_directories(parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    sync_directory(parent)


def sweep(directory: str) -> None:
    """Remove what killed writers left behind."""
    oldest = time.time() - _LEFT_BEHIND
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY):
                with contextlib.suppress(FileNotFoundError):  # its writer is alive, and done with it
                    if entry.stat().st_mtime < oldest:
                        os.unlink(entry.path)


@contextlib.contextmanager
def locked(directory: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the directory's lock. `FileNotFoundError` if the directory is gone (or, when shared, has no lock)."""
    path = f"{directory}/{_LOCK}"
    deadline = time.monotonic() + _PATIENCE
    while True:
        fd = os.open(path, os.O_CLOEXEC | (os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT), 0o666)
        try:
            _wait_for(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, path, deadline)
            # Who removed the directory removed the lock first; what was locked is then nobody's.
            if _is_still(fd, path):
                yield
                return
        finally:
            os.close(fd)


def discard(directory: str) -> bool:
    """Remove a directory that holds nothing but its lock, which the caller holds; False if something came in."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{_LOCK}")
    try:
        os.rmdir(directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            return False
        raise
    return True


def _wait_for(fd: int, kind: int, path: str, deadline: float) -> None:
    pause = 0.0002
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{path} was held by another process for {_PATIENCE:.0f} seconds; is one suspended?"
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)


def _is_still(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _sync(fd: int) -> None:
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:  # pragma: no cover  # macOS
        fcntl.fcntl(fd, _FULL_SYNC)
