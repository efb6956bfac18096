"""What `durable` flushes, and what a receipt may say of it."""

import fcntl
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

import uncopy
from uncopy import _native
from uncopy._durability import missing


def write(path, contents=b"contents"):
    with open(path, "wb") as file:
        file.write(contents)


def make_tree(name="tree"):
    os.makedirs(f"{name}/deep/empty")
    write(f"{name}/deep/file")
    os.symlink("deep", f"{name}/link")


# From `linux/xfs_fs.h`: the filesystem stops at once, without writing its log out.
XFS_IOC_GOINGDOWN, WITHOUT_LOG = 0x8004587D, 2


class Disk:
    """A filesystem in a file, whose machine loses power."""

    def __init__(self, image, root):
        self.image, self.root = image, root

    def mount(self):
        subprocess.run(["mount", "-o", "loop", self.image, self.root], check=True)
        return self.root

    def lose_power(self):
        number = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(number, XFS_IOC_GOINGDOWN, struct.pack("I", WITHOUT_LOG))
        finally:
            os.close(number)
        subprocess.run(["umount", self.root], check=True)


@pytest.fixture
def disk(place):
    if os.getuid() != 0 or not shutil.which("mkfs.xfs"):
        pytest.skip("needs root and mkfs.xfs")
    with open("image", "wb") as file:
        file.truncate(320 << 20)
    os.mkdir("disk")
    subprocess.run(["mkfs.xfs", "-q", "image"], check=True)
    made = Disk(place / "image", place / "disk")
    try:
        made.mount()
    except subprocess.CalledProcessError:
        pytest.skip("nothing can be mounted")
    yield made
    subprocess.run(["umount", made.root], check=False, stderr=subprocess.DEVNULL)


def none(directory, names):
    return set()


def copied_by_shutil(root):
    return uncopy.copytree("tree", root / "copy", symlinks=True, ignore=none, durable=True)


def copied_by_a_function(root):
    return uncopy.copytree("tree", root / "new/new2/copy", True, None, uncopy.copy, durable=True)


def copied_to_new_parents(root):
    return uncopy.copytree("tree", root / "new/new2/copy", symlinks=True, durable=True)


def moved_between(root):
    return uncopy.move("tree", root / "copy", durable=True)


def moved_by_a_function(root):
    return uncopy.move("tree", root / "copy", uncopy.copy, durable=True)


def moved_within(root):
    shutil.copytree("tree", root / "a", symlinks=True)
    os.mkdir(root / "b")
    return uncopy.move(root / "a", root / "b/copy", durable=True)


# The names that are there when the power is back.
TREES = {
    "by shutil": (copied_by_shutil, "copy"),
    "by a function": (copied_by_a_function, "new/new2/copy"),
    "new parents": (copied_to_new_parents, "new/new2/copy"),
    "moved between": (moved_between, "copy"),
    "moved by a function": (moved_by_a_function, "copy"),
    "moved within": (moved_within, "b/copy"),
}


# Directories and links were not flushed, and so their names were gone.
@pytest.mark.parametrize("copy, name", TREES.values(), ids=TREES)
def test_durable_trees_are_there_after_a_loss_of_power(disk, copy, name):
    make_tree()
    receipt = copy(disk.root)
    assert receipt.durable and receipt.to_dict()["durable"]
    disk.lose_power()
    found = disk.mount() / name
    assert os.listdir(found / "deep/empty") == []
    assert (found / "deep/file").read_bytes() == b"contents"
    assert os.readlink(found / "link") == "deep"


def link_copied(root):
    os.symlink("nothing", "link")
    return uncopy.copy2("link", root / "name", follow_symlinks=False, durable=True)


def link_moved(root):
    os.symlink("nothing", "link")
    return uncopy.move("link", root / "name", durable=True)


def link_renamed(root):
    os.symlink("nothing", root / "a")
    return uncopy.move(root / "a", root / "name", durable=True)


def file_renamed(root):
    os.mkdir(root / "d")
    write(root / "d/a")
    return uncopy.move(root / "d/a", root / "name", durable=True)


@pytest.mark.parametrize("act", [link_copied, link_moved, link_renamed, file_renamed])
def test_durable_names_are_there_after_a_loss_of_power(disk, act):
    receipt = act(disk.root)
    assert receipt.durable
    disk.lose_power()
    name = disk.mount() / "name"
    if name.is_symlink():
        assert os.readlink(name) == "nothing"
    else:
        assert name.read_bytes() == b"contents" and os.listdir(disk.root / "d") == []


def test_without_durable_nothing_is_flushed_or_claimed(place, monkeypatch):
    def fail(*_):
        raise AssertionError("flushed")

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(_native, "flush_filesystem", fail)
    make_tree()
    os.symlink("nothing", "link")
    for receipt in (
        uncopy.copytree("tree", "a/a", ignore=none),
        uncopy.copytree("tree", "b/b"),
        uncopy.move("tree", "c"),
        uncopy.copy("link", "d", follow_symlinks=False),
    ):
        assert not receipt.durable and not receipt.to_dict()["durable"]


def test_each_filesystem_of_an_existing_tree_is_flushed(place, monkeypatch):
    other = pathlib.Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == place.stat().st_dev:
        pytest.skip("/dev/shm is no other filesystem")
    make_tree()
    os.mkdir("copy")
    mounted = other / f"uncopy-test-{os.getpid()}"
    mounted.mkdir()
    os.symlink(mounted, "copy/deep")
    flushed = []
    monkeypatch.setattr(_native, "flush_filesystem", lambda path: flushed.append(os.stat(path).st_dev))
    try:
        receipt = uncopy.copytree("tree", "copy", ignore=none, dirs_exist_ok=True, durable=True)
        assert receipt.durable
        assert sorted(flushed) == sorted({os.stat(".").st_dev, other.stat().st_dev})
    finally:
        shutil.rmtree(mounted)


def test_files_of_others_are_not_durable(place):
    make_tree()

    def by_another(src, dst, durable):
        shutil.copy2(src, dst)

    assert not uncopy.copytree("tree", "a", copy_function=by_another, durable=True).durable
    os.mkdir("empty")
    assert uncopy.copytree("empty", "b", ignore=none, durable=True).durable


def test_missing_directories(place):
    os.mkdir("a")
    there = str(place)
    assert missing(f"{there}/a/b/c") == [f"{there}/a/b/c", f"{there}/a/b", f"{there}/a"]
    assert missing(f"{there}/a") == []
