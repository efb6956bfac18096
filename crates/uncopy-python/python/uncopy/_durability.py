"""Flushes what Python itself has made: names, links, and trees that `shutil` walked. The library flushes what it makes."""

import os
import stat

from uncopy import _native


def flush_names(directories):
    """Flush directories, in which names were made."""
    for path in directories:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def flush_link(path):
    """Flush a symbolic link: it has no descriptor to be flushed by."""
    _native.flush_filesystem(_directory_of(path))


def flush_renamed(src, dst):
    """Flush what was renamed from `src` to `dst`, and both names."""
    above = [_directory_of(dst), _directory_of(src)]
    if stat.S_ISREG(os.lstat(dst).st_mode):
        try:
            number = os.open(dst, os.O_RDONLY | os.O_NOFOLLOW)
        except PermissionError:
            pass
        else:
            try:
                os.fsync(number)
            finally:
                os.close(number)
            return flush_names(above)
    # Both names lie on one filesystem.
    _native.flush_filesystem(above[0])


def flush_filesystems(directories):
    """Flush each filesystem on which one of the directories lies."""
    flushed = set()
    for path in directories:
        device = os.stat(path).st_dev
        if device not in flushed:
            _native.flush_filesystem(path)
            flushed.add(device)


def missing(path):
    """Return the directories that are to be made for `path` to be one, and the one above them: the lowest first."""
    found = []
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return [*found, path] if found else []


def _directory_of(path):
    path = os.fspath(path)
    stripped = path.rstrip(os.sep if isinstance(path, str) else os.fsencode(os.sep))
    here = os.curdir if isinstance(path, str) else os.fsencode(os.curdir)
    return os.path.dirname(stripped) or here
