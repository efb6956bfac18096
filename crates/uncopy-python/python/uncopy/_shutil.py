"""The functions of `shutil`, with their arguments first and receipts instead of paths."""

import errno
import os
import sys

from uncopy import _durability, _native, _removal
from uncopy._errors import failing_at, named_pipe, same_file, source_changed


def copyfile(
    src, dst, *, follow_symlinks=True, require=None, durable=False, verify=None, progress=None, in_place=False
):
    """Copy the bytes of the file `src` to `dst`, the cheapest way that works here.

    An existing file is replaced in one step and keeps its mode, and its owner where this user may give it: after an error, a full disk or Ctrl-C it is as
    it was before. Where it cannot be replaced but written to, it is written in place, and a note of the receipt says so.

    `require` is a condition: "no-user-copy", "zero-copy", "moved", "shared" or "reflink". If it cannot be met, nothing is
    copied and `NoMechanismError` is raised. With `durable` data and name are flushed to the device. `verify` is True or
    the name of a digest ("blake3", "sha256", "xxh3"): the copy is read back before it gets its name. `progress` is called
    with a `Progress` about every 25 ms; what it raises stops the copy.

    With `in_place` an existing file is written into, as `shutil` does: hard links of it get the new contents too, but
    readers see a part of them meanwhile, and after an error or Ctrl-C it may be a mixture of old and new.

    >>> receipt = uncopy.copyfile("a.img", "b.img", verify="xxh3")
    >>> receipt.verified, sum(receipt.by_mechanism.values())
    (True, 65536)
    """
    sys.audit("uncopy.copyfile", src, dst)
    options = (require, durable, verify, progress)
    return _copy(src, dst, "nothing", follow_symlinks, options, in_place)


def copy(
    src, dst, *, follow_symlinks=True, require=None, durable=False, verify=None, progress=None, in_place=False
):
    """Copy the file `src` and its permission bits to `dst`, which may be a directory.

    The further arguments are those of `copyfile`.

    >>> os.path.basename(uncopy.copy("a.img", "directory"))
    'a.img'
    """
    sys.audit("uncopy.copy", src, dst)
    options = (require, durable, verify, progress)
    return _copy(src, _below(dst, src), "mode", follow_symlinks, options, in_place)


def copy2(
    src, dst, *, follow_symlinks=True, require=None, durable=False, verify=None, progress=None, in_place=False
):
    """Copy the file `src` to `dst`, which may be a directory, with mode, times, ACL and extended attributes.

    The further arguments are those of `copyfile`. Other copiers take it:

    >>> path = shutil.copytree("tree", "tree2", copy_function=uncopy.copy2)
    """
    sys.audit("uncopy.copy2", src, dst)
    options = (require, durable, verify, progress)
    return _copy(src, _below(dst, src), "stat", follow_symlinks, options, in_place)


def copytree(
    src,
    dst,
    symlinks=False,
    ignore=None,
    copy_function=copy2,
    ignore_dangling_symlinks=False,
    dirs_exist_ok=False,
    *,
    require=None,
    durable=False,
    verify=None,
    progress=None,
):
    """Copy the directory `src` with all that is in it to `dst`.

    A new tree is made beside `dst` and gets its name when it is complete. What could not be copied is listed by
    `shutil.Error`, as `shutil.copytree` does; the rest is copied. With `ignore`, or another `copy_function`, the tree is
    walked by `shutil.copytree`, with all that is its own, and each file copied by `copy_function`.

    >>> receipt = uncopy.copytree("tree", "tree3")
    >>> receipt.files, receipt.directories
    (2, 2)
    """
    sys.audit("uncopy.copytree", src, dst)
    src, dst = os.fspath(src), os.fspath(dst)
    options = (require, durable, verify, progress)
    _native.check_options(*options)
    # Whatever is true or false, as in shutil.
    symlinks = bool(symlinks)
    ignore_dangling_symlinks, dirs_exist_ok = bool(ignore_dangling_symlinks), bool(dirs_exist_ok)
    if ignore is not None or copy_function is not copy2:
        walk = (symlinks, ignore, ignore_dangling_symlinks, dirs_exist_ok)
        return _walk_by_shutil(src, dst, copy_function, walk, options)
    _make_room(src, dst, dirs_exist_ok, durable)
    walk = (symlinks, ignore_dangling_symlinks, dirs_exist_ok)
    return _copy_whole(src, dst, walk, options)


def move(
    src, dst, copy_function=copy2, *, require=None, durable=False, verify=None, progress=None
):
    """Give the file or directory `src` the name `dst`, or the same name in the directory `dst`.

    Between filesystems it is copied and then removed; the further arguments are those of `copyfile` and hold for that
    copy. Nothing is removed unless all was copied, and then only what is as it was when it was copied: a file that was
    changed or made meanwhile stays, and is named by the error.

    >>> uncopy.move("b.img", "c.img").action
    'renamed'
    """
    sys.audit("uncopy.move", src, dst)
    src, dst = os.fspath(src), os.fspath(dst)
    options = (require, durable, verify, progress)
    _native.check_options(*options)
    target = dst
    if os.path.isdir(dst) and not _is_same(src, dst):
        target = os.path.join(dst, os.path.basename(src.rstrip(os.sep if isinstance(src, str) else b"/")))
        if os.path.exists(target):
            from shutil import Error

            with failing_at(target):
                raise Error(f"Destination path '{os.fsdecode(target)}' already exists")
    try:
        os.rename(src, target)
    except OSError:
        # As shutil: whatever the reason is, a copy may work, and says why if it does not. A source that is missing says so.
        with failing_at(src, (src, target)):
            os.lstat(src)
        _refuse_empty(src, dst)
        return _copy_and_remove(src, dst, target, copy_function, options)
    if durable:
        with failing_at(target, (src, target)):
            _durability.flush_renamed(src, target)
    return _native.Receipt._without_bytes(target, True, durable)


def _copy_and_remove(src, dst, target, copy_function, options):
    before = _removal.state(os.lstat(src))
    if os.path.islink(src):
        receipt = _copy_link(src, target, "stat", options)
        _remove_file(src, target, before)
        return receipt
    if not os.path.isdir(src):
        receipt = _calling(copy_function, options)(src, target)
        _remove_file(src, target, before)
        return receipt if isinstance(receipt, _native.Receipt) else _native.Receipt._total(target, [], 1)
    if _lies_in(dst, src):
        from shutil import Error

        names = (os.fsdecode(src), os.fsdecode(dst))
        with failing_at(dst):
            raise Error("Cannot move a directory '%s' into itself '%s'." % names)
    root, left = os.fsdecode(src), {}
    if copy_function is copy2:
        _make_room(src, target, False, options[1])
        receipt = _copy_whole(src, target, (True, False, False), options, left)
        copied = _removal.Copied(os.fsdecode(target))
    else:
        copied = _removal.Snapshot(root)
        walk = (True, None, False, False)
        receipt = _walk_by_shutil(src, target, copy_function, walk, options)
    # With the root itself no file was removed: its copies could not be flushed.
    if root not in left:
        _removal.remove_tree(root, copied, left)
    _removal.raise_left(src, target, left)
    return receipt


def _remove_file(src, target, before):
    """Remove a file or link that was copied, if it is as it was before."""
    try:
        with failing_at(src, (src, target), removes=True):
            if _removal.is_as_it_was(before, os.lstat(src)):
                return os.unlink(src)
    except FileNotFoundError:
        # Somebody else has removed it.
        return
    raise source_changed(src, target)


def _copy_whole(src, dst, walk, options, left=None):
    """Copy a tree by the library, and remove the files of its source if `left` is given.

    What cannot be removed is added to `left`: reasons by path.
    """
    symlinks, ignore_dangling_symlinks, dirs_exist_ok = walk
    removes = left is not None
    copied = _native.copy_tree(src, dst, symlinks, removes, *options)
    while dirs_exist_ok and _was_made_meanwhile(dst, copied):
        copied = _native.copy_tree(src, dst, symlinks, removes, *options)
    receipt, failures, stayed, cause = copied
    _raise_failures(src, dst, failures, cause, symlinks, ignore_dangling_symlinks)
    for source, _, error in stayed:
        left[os.fsdecode(source)] = str(error)
    return receipt


def _was_made_meanwhile(dst, copied):
    """Return whether a new tree did not get its name because somebody else made a directory of that name."""
    _, failures, _, cause = copied
    errors = [error for _, destination, error in failures if os.fsencode(destination) == os.fsencode(dst)]
    return any(isinstance(error, FileExistsError) for error in [*errors, cause]) and os.path.isdir(dst)


def _copy(src, dst, kept, follow_symlinks, options, in_place):
    if not follow_symlinks and os.path.islink(src):
        _native.check_options(*options, in_place)
        refused = _refused_first(src, dst)
        if refused is not None:
            raise refused
        return _copy_link(src, dst, kept, options)
    try:
        return _native.copy_file(src, dst, kept, in_place, *options)
    except OSError as error:
        refused = _refused_first(src, dst)
        if refused is not None and (type(refused), str(refused)) != (type(error), str(error)):
            raise refused from error
        if not isinstance(error, IsADirectoryError) or os.path.isdir(src) or os.path.exists(dst):
            raise
        with failing_at(dst, (src, dst)):
            raise FileNotFoundError(errno.ENOENT, "Directory does not exist") from error


def _refused_first(src, dst):
    """Make what `shutil` raises before it opens a file, if it does."""
    if _is_same(src, dst):
        return same_file(src, dst)
    for path in (src, dst):
        if _is_fifo(path):
            return named_pipe(path)
    return None


def _is_fifo(path):
    import stat

    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _copy_link(src, dst, kept, options):
    _, durable, _, _ = options
    with failing_at(src, (src, dst)):
        target = os.readlink(src)
    with failing_at(dst, (src, dst)):
        os.symlink(target, dst)
        if kept == "stat":
            from shutil import copystat

            copystat(src, dst, follow_symlinks=False)
        if durable:
            _durability.flush_link(dst)
    return _native.Receipt._without_bytes(os.fspath(dst), False, durable)


def _refuse_empty(src, dst):
    if not dst:
        with failing_at(dst, (src, dst)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _make_room(src, dst, dirs_exist_ok, durable):
    """Refuse what `shutil.copytree` refuses, and make the directories above `dst`."""
    # Raises what shutil raises for a source that is no directory.
    with failing_at(src, (src, dst)):
        os.scandir(src).close()
    _refuse_empty(src, dst)
    if os.path.lexists(dst):
        with failing_at(dst, (src, dst)):
            os.makedirs(dst, exist_ok=dirs_exist_ok)
    else:
        _make_parent(src, dst, durable)


def _make_parent(src, dst, durable):
    """Make the directories above `dst`, and flush them if `durable`."""
    parent = os.path.dirname(os.path.abspath(dst))
    made = _durability.missing(parent) if durable else []
    with failing_at(os.path.dirname(dst) or parent, (src, dst)):
        try:
            os.makedirs(parent, exist_ok=True)
            _durability.flush_names(made)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _below(dst, src):
    """Return the path of a copy: `dst`, or the name of `src` in it if it is a directory."""
    if os.path.isdir(dst):
        return os.path.join(dst, os.path.basename(src))
    return dst


def _is_same(src, dst):
    try:
        return os.path.samefile(src, dst)
    except OSError:
        return False


def _lies_in(dst, src):
    src, dst = os.path.abspath(src), os.path.abspath(dst)
    return os.path.commonpath([src, dst]) == src


def _calling(copy_function, options):
    """Return the function with the options that were given.

    Raises `TypeError` if it does not take each of them, before anything is made.
    """
    names = ("require", "durable", "verify", "progress")
    given = {name: option for name, option in zip(names, options) if option}
    if not given:
        return copy_function
    if not callable(copy_function):
        raise TypeError("copy_function must be a function")
    import functools
    import inspect

    try:
        inspect.signature(copy_function).bind("src", "dst", **given)
    except TypeError:
        named = ", ".join(given)
        raise TypeError(
            f"the copy_function does not take the options of uncopy that were given ({named}): leave them out, or pass "
            "uncopy.copy2, with functools.partial for arguments of its own"
        ) from None
    except ValueError:
        # A builtin without a signature says so itself.
        pass
    return functools.partial(copy_function, **given)


def _walk_by_shutil(src, dst, copy_function, walk, options):
    import shutil

    symlinks, ignore, ignore_dangling_symlinks, dirs_exist_ok = walk
    copied = _calling(copy_function, options)
    _, durable, _, _ = options
    receipts, unwatched = [], 0

    def copy_one(source, destination):
        nonlocal unwatched
        receipt = copied(source, destination)
        if not isinstance(receipt, _native.Receipt):
            unwatched += 1
            return receipt
        receipts.append(receipt)
        if len(receipts) == 1000:
            receipts[:] = [_native.Receipt._total(dst, receipts, 0)]
        return receipt

    gone_through = []

    def ignored(directory, names):
        gone_through.append(os.path.relpath(directory, src))
        return ignore(directory, names) if ignore is not None else set()

    with failing_at(None):
        shutil.copytree(
            src, dst, symlinks, ignored if durable else ignore, copy_one, ignore_dangling_symlinks,
            dirs_exist_ok,
        )
    if durable:
        # Directories above a new tree are on its filesystem.
        _durability.flush_filesystems(os.path.join(dst, below) for below in gone_through)
    return _native.Receipt._total(dst, receipts, unwatched, bool(durable))


def _raise_failures(src, dst, failures, cause, symlinks, ignore_dangling_symlinks):
    """Raise what could not be copied, as `shutil.copytree` does."""
    listed, errors = [], []
    for source, destination, error in failures:
        is_dangling = os.path.islink(source) and not os.path.exists(source)
        if ignore_dangling_symlinks and not symlinks and is_dangling:
            continue
        if error is None:
            error = _special(source)
        if os.fsencode(destination) == os.fsencode(dst) and len(failures) == 1:
            raise error
        listed.append((source, destination, str(error)))
        errors.append(error)
    if cause is not None:
        if not listed:
            raise cause
        listed.append((src, dst, str(cause)))
    if listed:
        from shutil import Error

        made, first = Error(listed), errors[0]
        made.failed_path = first.failed_path
        made.add_note(" ".join(getattr(first, "__notes__", [str(first)])))
        raise made


def _special(source):
    """Make what `shutil` raises for a file that is neither file, directory nor link."""
    import stat

    from uncopy._errors import exception, words_for_kind

    mode = os.lstat(source).st_mode
    kinds = (
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character_device"),
        (stat.S_ISBLK, "block_device"),
    )
    kind = next((kind for is_kind, kind in kinds if is_kind(mode)), "unknown")
    name = os.fsdecode(source)
    message = f"cannot copy {name}: it is {words_for_kind(kind)}; read or write its bytes yourself, or leave it out"
    return exception("not_regular", kind, None, None, message, name, source, None)
