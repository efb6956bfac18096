"""The results of each function are those of shutil's, for the same files and arguments."""

import os
import shutil
import socket
import stat

import pytest

import uncopy
from conftest import described

OLD = 1_000_000_000_123_456_789


def write(path, contents=b"contents", mode=0o644, when=OLD):
    with open(path, "wb") as file:
        file.write(contents)
    os.chmod(path, mode)
    os.utime(path, ns=(when, when))


def make_file():
    write("a", b"new contents" * 1000, 0o751)
    os.setxattr("a", "user.note", b"kept")
    os.utime("a", ns=(OLD, OLD))


def make_small_file():
    write("a", b"x", 0o600)


def make_empty_file():
    write("a", b"")


def make_set_user_id():
    write("a", b"x", 0o4755)


def make_large_file():
    with open("a", "wb") as file:
        file.write(bytes(range(256)) * 4096)
        file.seek(5 << 20)
        file.write(b"after a hole")
        file.truncate(8 << 20)


def make_existing():
    make_file()
    write("b", b"old contents that are longer than nothing" * 1000, 0o640)


def make_read_only_existing():
    make_file()
    write("b", b"old", 0o444)


def make_source_read_only():
    write("a", b"x", 0o444)


def make_destination_directory():
    make_file()
    os.mkdir("b")


def make_taken_in_directory():
    make_file()
    os.mkdir("b")
    write("b/a", b"old")


def make_link_to_file():
    write("file", b"through a link")
    os.symlink("file", "a")
    os.utime("a", ns=(OLD, OLD), follow_symlinks=False)


def make_dangling_link():
    os.symlink("missing", "a")


def make_link_to_directory():
    os.mkdir("directory")
    os.symlink("directory", "a")


def make_destination_link():
    write("a", b"new")
    write("file", b"old", 0o600)
    os.symlink("file", "b")


def make_link_and_taken():
    make_link_to_file()
    write("b", b"old")


def make_same_file():
    write("a")
    os.link("a", "b")


def make_link_to_destination():
    write("b")
    os.symlink("b", "a")


def make_nothing():
    pass


def make_directory():
    os.mkdir("a")


def make_fifo():
    os.mkfifo("a")


def make_destination_fifo():
    write("a")
    os.mkfifo("b")


def make_socket():
    made = socket.socket(socket.AF_UNIX)
    made.bind("a")
    made.close()


FILES = [make for name, make in sorted(globals().items()) if name.startswith("make_")]


def outcome(function, where, make, arguments, options):
    """Do it in `where`. Return what came of it: the exception's class, errno and list, or the path; and all that is there."""
    os.mkdir(where)
    here = os.getcwd()
    os.chdir(where)
    try:
        make()
        try:
            result = os.fspath(function(*arguments, **options))
        except shutil.Error as error:
            listed = error.args[0]
            if isinstance(listed, list):
                listed = sorted((source, destination) for source, destination, _ in listed)
            result = (type(error), str(listed) if isinstance(listed, list) else None)
        except OSError as error:
            result = (type(error), error.errno)
        return result, without_new_times(described("."))
    finally:
        os.chdir(here)


def without_new_times(entries):
    """Leave out the times that this test gave."""
    for entry in entries.values():
        if abs(entry["modified"] - OLD) > 10**12:
            del entry["modified"]
    return entries


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o666, 0o444, 0o2755])
@pytest.mark.parametrize("is_taken", [False, True])
def test_modes_of_new_files(place, umask, function, mode, is_taken):
    def make():
        write("a", b"x", mode)
        if is_taken:
            write("b", b"x", 0o640)

    theirs = outcome(getattr(shutil, function.__name__), "theirs", make, ("a", "b"), {})
    ours = outcome(function, "ours", make, ("a", "b"), {})
    assert ours == theirs


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
@pytest.mark.parametrize("target", ["file", "nowhere/file"])
def test_dangling_links_are_not_written_through(place, function, target):
    """The one difference that these tables know: shutil makes what the link names, where somebody may have put it."""
    write("a", b"new")
    os.symlink(target, "b")
    with pytest.raises(OSError):
        function("a", "b")
    assert os.readlink("b") == target
    assert sorted(os.listdir()) == ["a", "b"]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("follow_symlinks", [True, False])
@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__[5:])
def test_files(place, name, make, follow_symlinks, in_place):
    options = {"follow_symlinks": follow_symlinks}
    theirs = outcome(getattr(shutil, name), "theirs", make, ("a", "b"), options)
    ours = outcome(getattr(uncopy, name), "ours", make, ("a", "b"), {**options, "in_place": in_place})
    assert ours == theirs


@pytest.mark.parametrize("reaches_by", [os.link, os.symlink])
@pytest.mark.parametrize("old", [b"", b"old", b"longer than the new contents" * 1000])
@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
def test_files_with_other_names_are_written_in_place(place, name, old, reaches_by):
    def make():
        make_file()
        write("file", old, 0o640)
        reaches_by("file", "b")
        write("reader's", b"")

    def copy_with(function, **options):
        def copy(src, dst):
            inode = os.stat(dst).st_ino
            with open("file", "rb") as reader:
                copied = function(src, dst, **options)
                write("reader's", reader.read())
            assert os.stat(dst).st_ino == inode
            return copied

        return copy

    theirs = outcome(copy_with(getattr(shutil, name)), "theirs", make, ("a", "b"), {})
    ours = outcome(copy_with(getattr(uncopy, name), in_place=True), "ours", make, ("a", "b"), {})
    assert ours == theirs


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__[5:])
def test_moves_of_files(place, make):
    if make is make_link_to_directory:
        pytest.skip("shutil.move of a link to a directory")
    theirs = outcome(shutil.move, "theirs", make, ("a", "b"), {})
    ours = outcome(uncopy.move, "ours", make, ("a", "b"), {})
    assert ours == theirs


def make_tree():
    os.makedirs("a/deep/deeper")
    os.mkdir("a/empty", 0o700)
    write("a/file", b"one", 0o600)
    write("a/deep/file", b"two" * 5000, 0o755)
    write("a/deep/deeper/file.pyc", b"three")
    os.setxattr("a/file", "user.note", b"kept")
    os.setxattr("a/deep", "user.note", b"of a directory")
    os.utime("a/file", ns=(OLD, OLD))
    os.link("a/file", "a/deep/same file")
    os.symlink("file", "a/link")
    os.symlink("deep", "a/link to a directory")
    os.symlink("../../outside", "a/deep/link out of the tree")
    write("outside", b"outside of the tree")
    for path in ("a/link", "a/link to a directory", "a/deep/link out of the tree"):
        os.utime(path, ns=(OLD, OLD), follow_symlinks=False)
    os.chmod("a/deep", 0o750)
    for path in ("a/deep/deeper", "a/deep", "a/empty", "a"):
        os.utime(path, ns=(OLD, OLD))


def make_tree_with_dangling_link():
    make_tree()
    os.symlink("missing", "a/deep/dangling")
    os.utime("a/deep", ns=(OLD, OLD))


def make_absolute_links():
    os.mkdir("a")
    write("a/file")
    write("../kept")
    os.symlink(os.path.abspath("../kept"), "a/link")
    os.symlink(os.path.abspath("../missing"), "a/dangling")
    os.utime("a", ns=(OLD, OLD))


def make_tree_with_special_files():
    make_tree()
    os.mkfifo("a/deep/fifo")
    made = socket.socket(socket.AF_UNIX)
    made.bind("a/socket")
    made.close()


def make_tree_and_existing():
    make_tree()
    os.makedirs("b/deep")
    write("b/file", b"old", 0o640)
    write("b/other", b"stays")


def make_tree_and_file():
    make_tree()
    write("b", b"in the way")


def make_tree_and_link():
    make_tree()
    os.mkdir("directory")
    os.symlink("directory", "b")


def make_link_to_tree():
    os.mkdir("directory")
    write("directory/file")
    os.symlink("directory", "a")


def make_odd_names():
    os.makedirs(b"a/\xff\xfe")
    write(b"a/\xff\xfe/\x80")
    write(b"a/*[x]")
    write(b"a/ new\nline")


TREES = [
    make_tree,
    make_tree_with_dangling_link,
    make_tree_with_special_files,
    make_tree_and_existing,
    make_tree_and_file,
    make_tree_and_link,
    make_link_to_tree,
    make_odd_names,
    make_file,
    make_nothing,
    make_directory,
]

OPTIONS = {
    "plain": {},
    "symlinks": {"symlinks": True},
    "dirs_exist_ok": {"dirs_exist_ok": True},
    "both": {"symlinks": True, "dirs_exist_ok": True},
    "ignore_dangling": {"ignore_dangling_symlinks": True},
    "ignore": {"ignore": shutil.ignore_patterns("*.pyc", "empty")},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("make", TREES, ids=lambda make: make.__name__[5:])
def test_trees(place, make, options):
    # shutil looks for the targets of all links in the current directory then, and leaves out what is not there.
    if options.get("ignore_dangling_symlinks") and make.__name__.startswith("make_tree"):
        make = make_absolute_links
    theirs = outcome(shutil.copytree, "theirs", make, ("a", "b"), options)
    ours = outcome(uncopy.copytree, "ours", make, ("a", "b"), options)
    assert ours == theirs


@pytest.mark.parametrize("make", TREES, ids=lambda make: make.__name__[5:])
def test_moves_of_trees(place, make):
    theirs = outcome(shutil.move, "theirs", make, ("a", "b"), {})
    ours = outcome(uncopy.move, "ours", make, ("a", "b"), {})
    assert ours == theirs


@pytest.mark.parametrize("function", [uncopy.copy, uncopy.copy2, uncopy.copyfile])
def test_shutil_takes_ours(place, function):
    make_tree()
    shutil.copytree("a", "b", copy_function=getattr(shutil, function.__name__))
    shutil.copytree("a", "c", copy_function=function)
    assert without_new_times(described("b")) == without_new_times(described("c"))
    assert stat.S_ISDIR(os.lstat("c").st_mode)
