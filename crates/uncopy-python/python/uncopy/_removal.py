"""What a move removes: the entries of the source that are as they were when they were copied, and no others."""

import errno
import os
import stat

NOT_COPIED = "it was not there, or was not as it is now, when it was copied"


def state(status):
    """Return what shows that an entry is the one that it was, and unchanged."""
    kind = stat.S_IFMT(status.st_mode)
    identity = status.st_dev, status.st_ino, kind
    if kind == stat.S_IFDIR:
        return identity, None
    # Removing one of several names changes the file.
    changed = status.st_ctime_ns if status.st_nlink == 1 else None
    return (*identity, status.st_size, status.st_mtime_ns), changed


def is_as_it_was(before, status):
    """Return whether an entry is still in the state `before`."""
    (known, changed), now = before, state(status)
    return known == now[0] and (changed is None or changed == status.st_ctime_ns)


class Snapshot:
    """The entries of a tree before it is copied."""

    def __init__(self, src):
        self._states = {}
        for directory, directories, files in os.walk(src):
            below = "" if directory == src else os.path.relpath(directory, src)
            for name in directories + files:
                try:
                    status = os.lstat(os.path.join(directory, name))
                    self._states[os.path.join(below, name)] = state(status)
                except FileNotFoundError:
                    # Gone since it was listed; it counts as new if it comes again.
                    pass

    def has(self, below, status, target):
        """Return whether the entry at the path `below` the tree was in it, and is as it was."""
        before = self._states.get(below)
        return before is not None and is_as_it_was(before, status)


class Copied:
    """The directories and links of a tree, by their copies. The files are none of its."""

    def __init__(self, dst):
        self._dst = dst

    def has(self, below, status, target):
        """Return whether the copy has a directory, or the same link, at the path `below` it."""
        there = os.path.join(self._dst, below)
        try:
            if target is not None:
                return os.readlink(there) == target
            return stat.S_ISDIR(status.st_mode) and stat.S_ISDIR(os.lstat(there).st_mode)
        except OSError as error:
            # Of a path that is too long for a call nothing is known. A directory is removed only if it is empty.
            return target is None and error.errno == errno.ENAMETOOLONG


def remove_tree(src, copied, left):
    """Remove what `copied` has of the tree `src`, and of directories those that are empty then.

    What stays is added to `left`: reasons by path.
    """
    levels = []
    try:
        levels.append(_Level(None, src, src, ""))
        while levels:
            _remove_next(levels, copied, left)
    except FileNotFoundError:
        # Somebody else has removed it.
        pass
    except OSError as error:
        left.setdefault(src, error.strerror)
    finally:
        for level in levels:
            os.close(level.number)


def _remove_next(levels, copied, left):
    level = levels[-1]
    if not level.names:
        levels.pop().end(left)
        if level.keeps and levels:
            levels[-1].keeps = True
        return
    name = level.names.pop()
    path, below = os.path.join(level.path, name), os.path.join(level.below, name)
    try:
        status = os.stat(name, dir_fd=level.number, follow_symlinks=False)
        is_link = stat.S_ISLNK(status.st_mode)
        target = os.readlink(name, dir_fd=level.number) if is_link else None
        if not copied.has(below, status, target):
            level.leave(name, NOT_COPIED, left)
        elif stat.S_ISDIR(status.st_mode):
            levels.append(_Level(level.number, name, path, below))
        else:
            os.unlink(name, dir_fd=level.number)
    except FileNotFoundError:
        pass
    except OSError as error:
        level.leave(name, error.strerror, left)


class _Level:
    """A directory that is emptied. It is opened by its name in the one above, so that no link leads elsewhere."""

    def __init__(self, above, name, path, below):
        self.above, self.name, self.path, self.below = above, name, path, below
        self.keeps = False
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        self.number = os.open(name, flags, dir_fd=above)
        try:
            self.names = os.listdir(self.number)
        except BaseException:
            os.close(self.number)
            raise

    def leave(self, name, reason, left):
        """Note an entry that stays, unless there is a reason already."""
        self.keeps = True
        left.setdefault(os.path.join(self.path, name), reason)

    def end(self, left):
        """Remove the directory if it is empty. If not, that is said of what is in it."""
        os.close(self.number)
        try:
            os.rmdir(self.name, dir_fd=self.above)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                left.setdefault(self.path, error.strerror)
            elif not self.keeps:
                left.setdefault(self.path, "something appeared in it meanwhile")
            self.keeps = True


def raise_left(src, dst, left):
    """Raise an error that lists what stays of the source, if anything does."""
    if not left:
        return
    from shutil import Error

    begin = len(os.fsdecode(src))
    rows = [(path, os.fsdecode(dst) + path[begin:], reason) for path, reason in left.items()]
    error = Error([(_like(src, path), _like(dst, there), reason) for path, there, reason in rows])
    error.failed_path = rows[0][0]
    error.add_note("all else was moved; look at what is listed, which stays, and move it by itself")
    raise error


def _like(original, path):
    """Return the path as bytes if the original is."""
    return os.fsencode(path) if isinstance(original, bytes) else path
