"""Places where copies are made, and how what is there is described."""

import os
import stat

import pytest


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty directory that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, contents=b"contents"):
    """Make a file of these contents."""
    with open(path, "wb") as file:
        file.write(contents)


def read(path):
    """Return the contents of a file."""
    with open(path, "rb") as file:
        return file.read()


def described(path):
    """Describe all that is at `path`: kinds, modes, times, contents, targets and attributes, by name."""
    found = {}
    for name in _names(os.fsencode(path)):
        found[os.path.relpath(name, os.fsencode(path))] = _entry(name)
    return found


def _names(path):
    yield path
    for directory, directories, files in os.walk(path):
        for name in directories + files:
            yield os.path.join(directory, name)


def _entry(name):
    status = os.lstat(name)
    entry = {
        "mode": oct(status.st_mode),
        "owner": (status.st_uid, status.st_gid),
        "modified": status.st_mtime_ns,
        "attributes": {
            key: os.getxattr(name, key, follow_symlinks=False)
            for key in os.listxattr(name, follow_symlinks=False)
        },
    }
    if stat.S_ISLNK(status.st_mode):
        entry["target"] = os.readlink(name)
    elif stat.S_ISREG(status.st_mode):
        with open(name, "rb") as file:
            entry["contents"] = file.read()
    return entry
