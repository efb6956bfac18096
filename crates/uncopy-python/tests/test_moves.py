"""Moves between filesystems remove what was copied, and nothing else."""

import os
import pathlib
import shutil
import stat

import pytest

import uncopy
from conftest import read, write


@pytest.fixture
def there(place):
    """A path on another filesystem, which does not exist."""
    other = pathlib.Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == place.stat().st_dev:
        pytest.skip("/dev/shm is no other filesystem")
    target = other / f"uncopy-test-{os.getpid()}"
    yield target
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def make_tree(name="tree"):
    os.makedirs(f"{name}/deep/empty")
    for number in range(20):
        write(f"{name}/{number}", bytes([number]) * 1000)
    write(f"{name}/deep/large", os.urandom(8 << 20))
    os.link(f"{name}/0", f"{name}/deep/other name")
    os.symlink("0", f"{name}/link")
    os.symlink("deep", f"{name}/link to directory")


def by_replacing(path, contents):
    write("aside", contents)
    os.rename("aside", path)


def relinked(path, target):
    os.symlink(target, "aside")
    os.rename("aside", path)


# What somebody does during the copy, and what stays of the source.
CHANGES = {
    "a new file": (lambda: write("tree/new", b"important"), ["tree/new"]),
    "a new file below": (lambda: write("tree/deep/new", b"important"), ["tree/deep/new"]),
    "a file in a new directory": (
        lambda: (os.mkdir("tree/new"), write("tree/new/file", b"important")),
        ["tree/new"],
    ),
    "a new link": (lambda: os.symlink("nothing", "tree/new"), ["tree/new"]),
    "a new FIFO": (lambda: os.mkfifo("tree/new"), ["tree/new"]),
    "a link that leads elsewhere": (lambda: relinked("tree/link", "else"), ["tree/link"]),
    "a file that is replaced": (lambda: by_replacing("tree/3", b"important"), ["tree/3"]),
    "a file that is written to": (lambda: write("tree/3", b"important"), ["tree/3"]),
    "a file that is removed": (lambda: os.unlink("tree/3"), []),
}


def during(function, change):
    """Return a copier that calls `change` when it has copied the last file, and a list that says whether it did."""
    calls = []

    def copy(src, dst):
        function(src, dst)
        calls.append(src)
        if len(calls) == 22:
            change()

    return copy, calls


# Without the comparison, all that stood in the source at the end was removed.
@pytest.mark.parametrize("function", [shutil.copy2, uncopy.copy], ids=["theirs", "ours"])
@pytest.mark.parametrize("change, stays", CHANGES.values(), ids=CHANGES)
def test_what_is_new_when_all_is_copied_stays(there, change, stays, function):
    make_tree()
    copy, calls = during(function, change)
    before = set(walked("tree"))
    moved(there, stays, copy_function=copy)
    assert len(calls) == 22
    kept = set(walked("tree")) if os.path.exists("tree") else set()
    above = {os.path.dirname(path) for path in stays} | {"tree"}
    assert {path for path in kept if path not in above and not path.startswith("tree/new/")} == set(stays)
    assert {os.path.relpath(path, "tree") for path in before} <= {
        os.path.relpath(path, there) for path in walked(there)
    }


def walked(top):
    for directory, directories, files in os.walk(top):
        yield from (os.path.join(directory, name) for name in [*directories, *files])


def moved(there, stays, **options):
    """Move the tree; all that stays is named by the error."""
    if not stays:
        uncopy.move("tree", there, **options)
        assert not os.path.exists("tree")
        return
    with pytest.raises(shutil.Error) as caught:
        uncopy.move("tree", there, **options)
    assert [source for source, _, _ in caught.value.args[0]] == stays
    assert caught.value.failed_path == stays[0]
    (note,) = caught.value.__notes__
    assert "all else was moved" in note


@pytest.mark.parametrize("change, stays", CHANGES.values(), ids=CHANGES)
def test_what_appears_during_the_copy_of_a_tree_stays(there, change, stays):
    make_tree()
    for number in range(2000):
        write(f"tree/deep/{number}")
    changed = []

    def progress(point):
        # The files of the top are copied, or are being copied.
        if not changed and os.path.exists("tree") and point.done_entries > 25:
            changed.append(change())

    try:
        uncopy.move("tree", there, progress=progress)
    except shutil.Error as error:
        listed = error.args[0]
        assert {source for source, _, _ in listed} <= set(stays), listed
    assert changed
    # Every byte is somewhere: what is not in the copy has stayed.
    for path in stays:
        below = os.path.relpath(path, "tree")
        place = path if os.path.lexists(path) else there / below
        if os.path.islink(place):
            assert os.readlink(place) in ("nothing", "else")
        elif stat.S_ISREG(os.lstat(place).st_mode):
            assert read(place) == b"important"
    if not any(os.path.lexists(path) for path in stays):
        assert not os.path.exists("tree")


def test_a_file_that_cannot_be_copied_keeps_the_whole_source(there):
    make_tree()
    os.mkfifo("tree/deep/fifo")
    before = sorted(walked("tree"))
    with pytest.raises(shutil.Error):
        uncopy.move("tree", there)
    assert sorted(walked("tree")) == before


FILES = {
    "replaced": lambda: by_replacing("a", b"important"),
    "touched": lambda: os.utime("a", ns=(1, 1)),
    "given another mode": lambda: os.chmod("a", 0o600),
}


# The file was unlinked although its name stood for another one by then.
@pytest.mark.parametrize("change", FILES.values(), ids=FILES)
@pytest.mark.parametrize("copy_function", [uncopy.copy2, shutil.copy2], ids=["ours", "theirs"])
def test_a_file_that_changes_stays(there, change, copy_function):
    write("a")

    def copy(src, dst):
        receipt = copy_function(src, dst)
        change()
        return receipt

    with pytest.raises(uncopy.SourceChangedError, match="move it again") as caught:
        uncopy.move("a", there, copy_function=copy)
    assert (caught.value.failed_path, caught.value.code) == ("a", "source_changed")
    assert os.path.exists("a") and read(there) == b"contents"


def test_a_file_that_is_replaced_during_its_copy_stays(there):
    write("a", os.urandom(1 << 20))
    with pytest.raises(uncopy.SourceChangedError):
        uncopy.move("a", there, progress=lambda point: by_replacing("a", b"important"))
    assert read("a") == b"important"


@pytest.mark.parametrize("as_path", [os.fspath, os.fsencode], ids=["text", "bytes"])
def test_deep_trees_and_names_of_every_kind_are_moved(there, as_path):
    os.makedirs("tree" + "/deep" * 200)
    write(b"tree/\xff\n")
    os.symlink(b"\xff", b"tree/\xfe")
    uncopy.move(as_path("tree"), as_path(str(there)))
    assert not os.path.exists("tree")
    assert os.readlink(os.fsencode(there) + b"/\xfe") == b"\xff"


def test_an_entry_that_cannot_be_removed_is_listed(there):
    make_tree()
    mounted = os.getuid() == 0 and os.path.exists("/bin/mount")
    if not mounted:
        pytest.skip("nothing can be mounted")
    os.mkdir("tree/mounted")
    if os.system("mount -t tmpfs none tree/mounted") != 0:
        pytest.skip("nothing can be mounted")
    try:
        write("tree/mounted/file")
        moved(there, ["tree/mounted"])
        assert os.listdir("tree") == ["mounted"] and read(there / "mounted/file") == b"contents"
    finally:
        os.system("umount tree/mounted")
