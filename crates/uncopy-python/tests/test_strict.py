"""Rows in which the functions once differed from `shutil`, or from their own documentation."""

import concurrent.futures
import copy
import errno
import functools
import gc
import multiprocessing
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import threading
import weakref

import pytest

import uncopy


def write(path, contents=b"contents"):
    with open(path, "wb") as file:
        file.write(contents)


def make_tree(root):
    os.makedirs(os.path.join(root, "d"))
    write(os.path.join(root, "a"), b"a")
    write(os.path.join(root, "d", "big"), bytes(2_000_000))
    write(os.path.join(root, "d", "z"), b"z")


LIMITED = """
import resource, signal, shutil, sys, uncopy
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    if sys.argv[1] == "copytree":
        uncopy.copytree("s", "t")
    else:
        uncopy.move("s", sys.argv[2])
except shutil.Error as error:
    print(*[source for source, _, _ in error.args[0]])
"""


def test_a_file_that_has_no_room_fails_alone(place):
    make_tree("s")
    ran = subprocess.run([sys.executable, "-c", LIMITED, "copytree"], capture_output=True, text=True)
    assert ran.stdout == "s/d/big\n", ran.stderr
    assert sorted(os.listdir()) == ["s", "t"]
    assert sorted(os.listdir("t")) == ["a", "d"] and os.listdir("t/d") == ["z"]
    # The same tree again, with room.
    uncopy.copytree("s", "t", dirs_exist_ok=True)
    assert os.path.getsize("t/d/big") == 2_000_000


def test_a_move_without_room_leaves_the_source(place):
    target = "/dev/shm/uncopy-test-%d" % os.getpid()
    if os.stat("/dev/shm").st_dev == os.stat(".").st_dev:
        pytest.skip("there is one filesystem")
    make_tree("s")
    try:
        ran = subprocess.run([sys.executable, "-c", LIMITED, "move", target], capture_output=True, text=True)
        assert ran.stdout == "s/d/big\n", ran.stderr
        assert os.path.getsize("s/d/big") == 2_000_000 and os.path.exists("s/a")
        assert not [name for name in os.listdir("/dev/shm") if name.startswith(".uncopy")]
    finally:
        shutil.rmtree(target, ignore_errors=True)


@pytest.mark.parametrize("module", [shutil, uncopy])
def test_exceptions_of_names_that_are_missing(place, module):
    write("a")
    os.makedirs("s/d")

    def raised(function, *arguments):
        try:
            function(*arguments)
        except OSError as error:
            return type(error), error.errno
        raise AssertionError("it did not fail")

    missing = FileNotFoundError, errno.ENOENT
    # The class alone: shutil gives some of them no number.
    assert raised(module.copyfile, "a", "new/")[0] is missing[0]
    assert raised(module.copytree, "s", "") == missing
    assert raised(module.move, "s", "") == missing
    assert raised(module.copytree, "s", "a/x")[0] is NotADirectoryError
    assert raised(module.move, "nope", "/dev/shm/uncopy-nope") == missing
    assert raised(module.move, "nope", "b") == missing


def test_the_failed_path_is_named(place):
    write("a")
    for source, destination, failed in [("a", "missing/x", "missing"), ("nope", "b", "nope")]:
        with pytest.raises(FileNotFoundError) as caught:
            uncopy.copyfile(source, destination)
        assert (caught.value.filename, caught.value.filename2) == (source, destination)
        assert failed in caught.value.failed_path


@pytest.mark.parametrize("name", [b"n\xff", os.fsdecode(b"m\xfe\n")])
def test_text_of_a_receipt_is_the_path(place, name):
    write("a")
    receipt = uncopy.copyfile("a" if isinstance(name, str) else b"a", name)
    assert str(receipt) == os.fsdecode(name) and os.path.exists(str(receipt))
    assert receipt.to_dict()["destination"]


def test_receipts_go_to_other_processes(place):
    write("a", bytes(100_000))
    receipt = uncopy.copy2("a", "b", verify=True)
    stored = pickle.loads(pickle.dumps(receipt))
    for one in [stored, pickle.loads(pickle.dumps(stored))]:
        assert os.fspath(one) == str(one) == "b" and open(one, "rb").read() == bytes(100_000)
        assert repr(one) == repr(receipt) and one.to_dict() == receipt.to_dict()
        for name in dir(receipt):
            if not name.startswith("_") and not callable(getattr(receipt, name)):
                assert getattr(one, name) == getattr(receipt, name), name
        with pytest.raises(AttributeError):
            one.bytes = 1
    assert copy.copy(receipt) is receipt and copy.deepcopy([receipt])[0] is receipt
    assert weakref.ref(receipt)() is receipt
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawned) as pool:
        found = list(pool.map(uncopy.copyfile, ["a"] * 3, ["b1", "b2", "b3"]))
    assert [os.fspath(one) for one in found] == ["b1", "b2", "b3"]
    facts = uncopy.capabilities(".")
    again = pickle.loads(pickle.dumps(facts))
    assert again.to_dict() == facts.to_dict() == copy.deepcopy(facts).to_dict()


def test_other_copy_functions_get_what_they_take(place):
    make_tree("s")

    def takes_nothing(src, dst):
        raise AssertionError("it was called")

    with pytest.raises(TypeError, match="verify"):
        uncopy.copytree("s", "t", copy_function=takes_nothing, verify=True)
    # The advice was to give shutil.copy2 an argument that it has not.
    with pytest.raises(TypeError, match=r"\(durable\): leave them out, or pass uncopy.copy2"):
        uncopy.copytree("s", "t", copy_function=shutil.copy2, durable=True)
    with pytest.raises(TypeError, match="copy_function must be a function"):
        uncopy.copytree("s", "t", copy_function=None, verify=True)
    assert not os.path.exists("t")
    copier = functools.partial(uncopy.copy2, verify=True)
    receipt = uncopy.copytree("s", "by partial", copy_function=copier, durable=True)
    assert receipt.verified and receipt.durable
    seen = []

    def takes_verify(src, dst, verify=None):
        seen.append(verify)
        return uncopy.copy2(src, dst, verify=verify)

    assert uncopy.copytree("s", "t", copy_function=takes_verify, verify=True).verified
    assert seen == [True] * 3


def test_nothing_is_claimed_about_copies_of_others(place):
    make_tree("s")
    receipt = uncopy.copytree("s", "t", copy_function=shutil.copy2)
    assert not receipt.is_zero_copy and not receipt.verified and not receipt.durable
    assert "3 files copied by something else" in repr(receipt)
    calls = []

    def by_turns(src, dst):
        calls.append(src)
        if len(calls) % 2:
            return uncopy.copy2(src, dst, verify=True, durable=True)
        return shutil.copy2(src, dst)

    receipt = uncopy.copytree("s", "u", copy_function=by_turns)
    assert receipt.files == 2 and not receipt.verified and not receipt.durable


def test_next_steps_are_those_of_python(place):
    write("a", bytes(8 << 20))

    def change(progress):
        if not changed:
            changed.append(os.truncate("a", 100))

    changed = []
    with pytest.raises(uncopy.SourceChangedError) as caught:
        uncopy.copyfile("a", "b", progress=change)
    notes = " ".join(getattr(caught.value, "__notes__", []))
    said = str(caught.value) + notes
    assert "copy again when nobody writes to it" in said and "if_changed" not in said


def test_threads_merge_into_one_new_tree(place):
    """A tree that did not get its name, since another thread was quicker, was an error."""
    make_tree("s")
    for number in range(200):
        write(f"s/d/{number}", bytes(1000))
    failed = []

    def merge(destination):
        try:
            uncopy.copytree("s", destination, dirs_exist_ok=True)
        except BaseException as error:
            failed.append(error)

    for number in range(10):
        threads = [threading.Thread(target=merge, args=(f"t{number}",)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(os.listdir(f"t{number}/d")) == 202
    assert not failed, failed
    assert not [name for name in os.listdir() if name.startswith(".")]


def make_some(place):
    write("file")
    write("existing")
    os.mkdir("d")
    os.mkdir("d/existing")
    write("d/file")
    os.symlink("file", "link")
    os.mkfifo("fifo")


FAILED = [
    (uncopy.copytree, ("nope", "x"), {}, "nope"),
    (uncopy.copytree, ("file", "x"), {}, "file"),
    (uncopy.copytree, ("d", "existing"), {}, "existing"),
    (uncopy.copytree, ("d", "file/x"), {}, "file"),
    (uncopy.copytree, (b"d", b"file/x"), {}, "file"),
    (uncopy.copytree, ("d", "file"), {"dirs_exist_ok": True}, "file"),
    (uncopy.copytree, ("d", ""), {}, ""),
    (uncopy.copytree, ("nope", "x"), {"copy_function": uncopy.copy}, "nope"),
    (uncopy.move, ("nope", "x"), {}, "nope"),
    (uncopy.move, ("file", ""), {}, ""),
    (uncopy.move, ("file", "d"), {}, "d/file"),
    (uncopy.copy, ("link", "existing"), {"follow_symlinks": False}, "existing"),
    (uncopy.copy, ("link", "link"), {"follow_symlinks": False}, "link"),
    (uncopy.copy2, (b"link", b"nowhere/x"), {"follow_symlinks": False}, "nowhere/x"),
    (uncopy.copy2, (pathlib.Path("link"), "existing"), {"follow_symlinks": False}, "existing"),
    (uncopy.copy, ("file", "file"), {}, "file"),
    (uncopy.copy, ("fifo", "x"), {}, "fifo"),
    (uncopy.copyfile, ("file", "fifo"), {}, "fifo"),
    (uncopy.copyfile, ("file", "new/"), {}, "new/"),
    (uncopy.copyfile, ("file", "d"), {}, "d"),
    (uncopy.copyfile, ("nope", "x"), {}, "nope"),
]


@pytest.mark.parametrize("function, names, options, failed", FAILED)
def test_every_error_names_the_path_that_failed(place, function, names, options, failed):
    make_some(place)
    with pytest.raises(OSError) as caught:
        function(*names, **options)
    error = caught.value
    assert error.failed_path == failed
    # By shutil's own walk all is as there.
    if error.errno is not None and "copy_function" not in options:
        assert (error.filename, error.filename2) == tuple(map(os.fspath, names))
        assert any(f" {failed}: " in said and "; " in said for said in [str(error), *error.__notes__])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("nothing", path)], ids=["FIFO", "link"])
def test_the_error_of_a_tree_has_the_sentence_of_its_first_entry(place, make):
    make_tree("s")
    make("s/d/entry")
    with pytest.raises(shutil.Error) as caught:
        uncopy.copytree("s", "t")
    assert caught.value.failed_path == "s/d/entry"
    (note,) = caught.value.__notes__
    assert " s/d/entry: " in note and "; " in note


WRONG = [
    ({"require": "everything"}, ValueError),
    ({"require": 1}, TypeError),
    ({"durable": "yes"}, TypeError),
    ({"verify": "md5"}, ValueError),
    ({"verify": 0}, TypeError),
    ({"progress": 1}, TypeError),
]

CALLS = {
    "copy": lambda options: uncopy.copy2("file", "new", **options),
    "link": lambda options: uncopy.copy2("link", "new", follow_symlinks=False, **options),
    "rename": lambda options: uncopy.move("file", "new", **options),
    "move of a directory": lambda options: uncopy.move("d", "new", **options),
    "tree": lambda options: uncopy.copytree("d", "new", **options),
    "empty tree": lambda options: uncopy.copytree("d/existing", "new", **options),
    "tree by shutil": lambda options: uncopy.copytree("d", "new", ignore=lambda *_: (), **options),
    "by a function": lambda options: uncopy.copytree("d", "new", copy_function=uncopy.copy, **options),
}


# A rename, a link and a tree without files took whatever was given.
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("options, raised", WRONG, ids=str)
def test_wrong_options_are_refused_before_anything_is_made(place, call, options, raised):
    make_some(place)
    before = sorted(os.listdir())
    with pytest.raises(raised):
        call(options)
    assert sorted(os.listdir()) == before


OWN = [{"durable": 1}, {"durable": None}, {"verify": 0}, {"require": 1}, {"progress": 1}, {"in_place": "yes"}]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("options", OWN, ids=str)
def test_errors_name_the_option_that_is_wrong(place, call, options):
    make_some(place)
    (name,) = options
    with pytest.raises(TypeError, match=name):
        call(options)


class Many:
    """An object whose truth is not known, as that of arrays."""

    def __bool__(self):
        raise ValueError("neither true nor false")


FLAGS = {
    "follow_symlinks": ("copyfile", "copy", "copy2"),
    "symlinks": ("copytree",),
    "ignore_dangling_symlinks": ("copytree",),
    "dirs_exist_ok": ("copytree",),
}


# `symlinks` took True and False alone.
@pytest.mark.parametrize("ignore", [None, shutil.ignore_patterns("none")], ids=["ours", "by shutil"])
@pytest.mark.parametrize("given", [1, 0, None, "", "no", [0]], ids=repr)
@pytest.mark.parametrize("flag, name", [(flag, name) for flag in FLAGS for name in FLAGS[flag]])
def test_flags_of_shutil_are_taken_by_their_truth(place, flag, name, given, ignore):
    os.mkdir("tree")
    write("file")
    os.symlink("../file", "tree/link")
    if flag == "ignore_dangling_symlinks":
        os.symlink("nothing", "tree/dangling")
    in_tree = name == "copytree"
    made = []
    for number, value in enumerate([given, bool(given)]):
        to = f"to {number}"
        if flag == "dirs_exist_ok":
            os.mkdir(to)
        try:
            options = {flag: value, "ignore": ignore} if in_tree else {flag: value}
            getattr(uncopy, name)("tree" if in_tree else "tree/link", to, **options)
        except OSError as error:
            made.append(type(error))
        links = [os.path.islink(path) for path in [to, *sorted(walked(to))]]
        made.append((links, len(links)))
    assert made[: len(made) // 2] == made[len(made) // 2 :]
    with pytest.raises(ValueError, match="neither true nor false"):
        options = {"ignore": ignore} if in_tree else {}
        getattr(uncopy, name)("tree" if in_tree else "tree/link", "none", **{flag: Many()}, **options)
    assert not os.path.lexists("none")


def walked(top):
    for directory, directories, files in os.walk(top):
        yield from (os.path.join(directory, name) for name in [*directories, *files])


FIRST = [
    ("fifo", "fifo"),
    ("d", "d"),
    ("fifo", "nope/x"),
    ("d", "fifo"),
    ("fifo", "d"),
    ("nope", "fifo"),
    ("link", "file"),
    ("file", "link"),
    ("to fifo", "x"),
    ("to fifo", "fifo"),
]


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
@pytest.mark.parametrize("names", FIRST, ids=str)
def test_errors_come_in_the_order_of_shutil(place, name, names, follow):
    make_some(place)
    os.symlink("fifo", "to fifo")

    def raised(module):
        with pytest.raises(OSError) as caught:
            getattr(module, name)(*names, follow_symlinks=follow)
        return type(caught.value), str(caught.value) if type(caught.value) is shutil.SameFileError else ""

    assert raised(uncopy) == raised(shutil)


# The bytes of a device went to whoever would open the FIFO, and were waited for.
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_fifo_is_not_copied_from_or_to_a_device(place, device, name, in_place):
    os.mkfifo("fifo")
    # Whoever opens it does not wait.
    number = os.open("fifo", os.O_RDWR)
    try:
        for source, destination in [(device, "fifo"), ("fifo", device)]:
            with pytest.raises(shutil.SpecialFileError, match="`fifo` is a named pipe") as caught:
                getattr(uncopy, name)(source, destination, in_place=in_place)
            assert caught.value.failed_path == "fifo"
    finally:
        os.close(number)


class Name(str):
    """A path of the program's own class."""


def test_receipts_in_a_cycle_are_collected(place):
    write("a")
    name = Name("b")
    name.receipt = uncopy.copyfile("a", name)
    assert name.receipt.destination is name
    gone = weakref.ref(name.receipt)
    del name
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("as_path", [os.fspath, os.fsencode], ids=["text", "bytes"])
def test_errors_of_trees_list_names_as_they_were_given(place, as_path):
    make_tree("s")
    os.mkfifo("s/d/fifo")
    listed = []
    for module in (shutil, uncopy):
        with pytest.raises(shutil.Error) as caught:
            module.copytree(as_path("s"), as_path(module.__name__))
        ((source, destination, _),) = caught.value.args[0]
        listed.append((source, os.path.basename(destination)))
    assert listed == [(as_path("s/d/fifo"), as_path("fifo"))] * 2


def test_points_go_to_other_processes(place):
    write("a", os.urandom(1 << 20))
    points = []
    uncopy.copyfile("a", "b", progress=points.append)
    for point in points:
        again = pickle.loads(pickle.dumps(point))
        assert repr(again) == repr(point) and again.done_bytes == point.done_bytes
    assert points
    with pytest.raises(ValueError, match="verifying"):
        uncopy.Progress("resting", 0, 0, 0)
