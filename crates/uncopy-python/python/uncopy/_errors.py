"""Exceptions, and which of them stands for which error of the library."""

import errno as _errno
import os

from uncopy import _native


class CopyError(OSError):
    """A copy that was refused or given up, although no system call failed.

    `code` is a stable name for programs, and `failed_path` the path that it is about. The destination is as it was before.
    """

    code = ""
    failed_path = ""


class NoMechanismError(CopyError):
    """No mechanism that `require` accepts can copy this file here."""


class SourceChangedError(CopyError):
    """The source was written to, truncated or extended while it was copied."""


class VerificationError(CopyError):
    """The copy does not hold the bytes of the source."""


def exception(kind, code, errno, strerror, message, subject, source, destination):
    """Make the exception for an error of the library.

    `kind` and `code` name the reason, `errno` and `strerror` are those of a system call that failed, and `message` is the
    whole sentence with the next step. It becomes a note of the exception, and `failed_path` says which of the two names is
    the one that failed.
    """
    made = _made(kind, code, errno, strerror, message, subject, source, destination)
    if isinstance(made, OSError):
        made.failed_path = subject
    if message not in str(made):
        made.add_note(message)
    return made


def _made(kind, code, errno, strerror, message, subject, source, destination):
    if kind == "system":
        return OSError(errno, strerror, source, None, destination)
    if kind == "same_file":
        return same_file(source, destination)
    if kind == "not_regular":
        return _not_regular(code, subject, source, destination)
    if kind == "options":
        return ValueError(message)
    if kind == "forked":
        return RuntimeError(message)
    if kind == "refused" and code == "writing_forbidden":
        return PermissionError(_errno.EACCES, "Permission denied", source, None, destination)
    which, number = {
        "no_mechanism": (NoMechanismError, _errno.EOPNOTSUPP),
        "source_changed": (SourceChangedError, _errno.ESTALE),
        "verification_failed": (VerificationError, _errno.EIO),
        "cancelled": (CopyError, _errno.ECANCELED),
    }.get(kind, (CopyError, _errno.EPERM))
    made = which(number, message, source, None, destination)
    made.code = code or kind
    return made


class failing_at:
    """Has each `OSError` of a block say which path failed: this one, or the only one that it names.

    `names` are source and destination of the copy, which become its two names, and it gets a note with the next step.
    `removes`: the source is being removed, and was copied.
    """

    def __init__(self, path, names=None, removes=False):
        self._path = path
        self._names = names
        self._removes = removes

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _traceback):
        if not isinstance(error, OSError) or getattr(error, "failed_path", ""):
            return
        path = self._path
        if path is None and error.filename2 is None:
            path = error.filename
        if path is not None:
            error.failed_path = os.fsdecode(path)
        if self._names is not None and error.errno is not None:
            source, destination = map(os.fspath, self._names)
            error.filename, error.filename2 = source, destination
            if self._removes:
                error.add_note(_stays(source, destination, error.strerror))
            else:
                makes = os.fspath(path) != source
                error.add_note(_native.sentence_of_call(path, makes, error.errno))


def same_file(source, destination):
    """Make the exception for two names of one file."""
    from shutil import SameFileError

    made = SameFileError(f"{source!r} and {destination!r} are the same file")
    made.failed_path = os.fsdecode(destination)
    return made


def named_pipe(path):
    """Make the exception for a path at which there is a FIFO."""
    from shutil import SpecialFileError

    made = SpecialFileError(f"`{os.fsdecode(path)}` is a named pipe")
    made.failed_path = os.fsdecode(path)
    return made


def source_changed(source, destination):
    """Make the exception for a source that was copied and is another one now, so that it stays."""
    name = os.fsdecode(source)
    message = f"cannot remove {name}: it was changed or replaced while it was copied; move it again when nobody writes to it"
    return exception("source_changed", "source_changed", None, None, message, name, source, destination)


def words_for_kind(kind):
    """Return words for the code of a kind of file, with their article."""
    return {"fifo": "a FIFO", "unknown": "a special file"}.get(kind, "a " + kind.replace("_", " "))


def _stays(source, destination, reason):
    """Return the sentence for a source that was moved to another filesystem, but cannot be removed."""
    source, destination = os.fsdecode(source), os.fsdecode(destination)
    return (
        f"cannot remove {source}: {reason}; the whole of it is also at {destination}: change what keeps it (permissions, "
        "chattr -i) and remove it, or remove the copy"
    )


def _not_regular(kind, subject, source, destination):
    """Make what `shutil` raises for a file that is not regular; `kind` is the code of its kind."""
    if kind == "directory":
        return IsADirectoryError(_errno.EISDIR, "Is a directory", source, None, destination)
    if kind == "socket":
        return OSError(_errno.ENXIO, "No such device or address", source, None, destination)
    if kind == "fifo":
        return named_pipe(subject)
    from shutil import SpecialFileError

    return SpecialFileError(f"`{subject}` is {words_for_kind(kind)}")
