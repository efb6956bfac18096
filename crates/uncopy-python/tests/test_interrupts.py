"""Ctrl-C, callbacks that raise, and forks in the middle of a copy."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import uncopy

GIBIBYTE = 1 << 30


def sparse(path, size=2 * GIBIBYTE):
    """Make a long file that takes a while to copy where nothing may be shared, and little room."""
    with open(path, "wb") as file:
        file.truncate(size)


class Stop(Exception):
    pass


def raising(after):
    """Return a callback that raises when it is called for the last of `after` times."""
    points = []

    def progress(point):
        points.append(point)
        if len(points) >= after:
            raise Stop(len(points))

    progress.points = points
    return progress


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
def test_callbacks_that_raise_stop_the_copy(place, function):
    with open("a", "wb") as file:
        file.write(os.urandom(8 << 20))
    with open("b", "wb") as file:
        file.write(b"old")
    progress = raising(1)
    with pytest.raises(Stop):
        function("a", "b", progress=progress)
    assert sorted(os.listdir()) == ["a", "b"]
    with open("b", "rb") as file:
        assert file.read() == b"old"
    point = progress.points[0]
    assert point.phase == "copying" and 0 <= point.done_bytes <= point.total_bytes
    assert repr(point).startswith("Progress(phase='copying', done_bytes=")


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
def test_a_copy_in_place_that_is_stopped_has_begun(place, function):
    for name, contents in (("a", os.urandom(8 << 20)), ("b", b"old" * 5_000_000)):
        with open(name, "wb") as file:
            file.write(contents)
    os.link("b", "c")
    with pytest.raises(Stop):
        function("a", "b", in_place=True, progress=raising(2))
    assert sorted(os.listdir()) == ["a", "b", "c"] and os.path.samefile("b", "c")
    function("a", "b", in_place=True)
    with open("a", "rb") as new, open("c", "rb") as copied:
        assert copied.read() == new.read()


def test_progress_is_called_and_may_copy_itself(place):
    with open("a", "wb") as file:
        file.write(os.urandom(1 << 20))
    points = []

    def progress(point):
        points.append(point.done_bytes)
        uncopy.copyfile("a", "c")

    uncopy.copyfile("a", "b", progress=progress)
    assert points and points == sorted(points) and os.path.getsize("c") == 1 << 20


INTERRUPTED = """
import os, signal, sys, threading, time, uncopy
function, source, destination = sys.argv[1:4]
begun = threading.Event()

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

def progress(point):
    begun.set()
    time.sleep(0.02)

threading.Thread(target=interrupt, daemon=True).start()
try:
    getattr(uncopy, function)(source, destination, progress=progress)
except KeyboardInterrupt:
    print("interrupted")
"""


def interrupted(function, source, destination):
    command = [sys.executable, "-c", INTERRUPTED, function, source, destination]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_ctrl_c_in_a_copy_leaves_nothing(place):
    with open("a", "wb") as file:
        for _ in range(16):
            file.write(os.urandom(1 << 20))
    ran = interrupted("copyfile", "a", "b")
    assert ran.stdout == "interrupted\n", ran.stderr
    assert os.listdir() == ["a"]


ENDLESS = """
import os, signal, sys, threading, uncopy

def moved():
    with open("/proc/self/io") as counts:
        return int(counts.readline().split()[1])

def interrupt():
    while moved() < 8 << 20:
        pass
    before.append(moved())
    os.kill(os.getpid(), signal.SIGINT)

before = []
threading.Thread(target=interrupt, daemon=True).start()
try:
    uncopy.copyfile("/dev/urandom", "b")
except KeyboardInterrupt:
    print(moved() - before[0])
"""


def test_ctrl_c_ends_an_endless_copy_without_a_callback(place):
    ran = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False, timeout=300
    )
    # Read since the signal; without a look for it the disk would be full.
    assert ran.returncode == 0 and int(ran.stdout) < 4 * GIBIBYTE, ran.stderr
    assert os.listdir() == []


def unlinked_files():
    """Return the files without a name that this process has open here."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(os.getcwd()) and target.endswith(" (deleted)"):
            found.append(target)
    return found


def test_the_space_of_a_stopped_copy_is_freed(place):
    with open("a", "wb") as file:
        for _ in range(128):
            file.write(os.urandom(1 << 20))

    def progress(point):
        if point.done_bytes >= 96 << 20:
            raise Stop

    with pytest.raises(Stop):
        uncopy.copyfile("a", "b", progress=progress)
    assert os.listdir() == ["a"]
    deadline = time.monotonic() + 120
    while unlinked_files() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not unlinked_files()


def test_ctrl_c_in_a_tree_leaves_nothing(place):
    os.mkdir("a")
    for number in range(3000):
        with open(f"a/{number}", "wb") as file:
            file.write(b"contents")
    # A handler that raises is what Ctrl-C is; the copy of a tree looks for it while its workers copy.
    code = """
import os, shutil, signal, threading, uncopy

def interrupt():
    while os.listdir() == ["a"]:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    while True:
        uncopy.copytree("a", "b", progress=lambda point: None)
        shutil.rmtree("b")
except KeyboardInterrupt:
    print("interrupted")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.stdout == "interrupted\n", ran.stderr
    # It came in the middle of a copy, which leaves nothing, or in rmtree, which leaves its tree.
    assert [name for name in os.listdir() if name not in ("a", "b")] == []


SLOW_REMOVAL = """
import os, signal, sys, threading, time, uncopy

def interrupt():
    begun.wait()
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

def progress(point):
    if point.done_entries >= int(sys.argv[1]):
        begun.set()
        time.sleep(0.02)

begun, sent = threading.Event(), []
threading.Thread(target=interrupt, daemon=True).start()
try:
    uncopy.copytree("a", "b", progress=progress)
except KeyboardInterrupt:
    waiting = [thread for thread in threading.enumerate() if thread.name == "uncopy removes"]
    print("interrupted", len(waiting), all(not thread.daemon for thread in waiting), os.path.exists("b"))
"""


def test_the_end_of_the_interpreter_waits_until_a_tree_is_removed(place):
    os.mkdir("a")
    for directory in range(40):
        os.mkdir(f"a/{directory}")
        for number in range(1000):
            with open(f"a/{directory}/{number}", "wb") as file:
                file.write(b"contents")
    for command in (
        SLOW_REMOVAL,
        # A child process of multiprocessing ends in another way.
        f"import multiprocessing\nif __name__ == '__main__':\n"
        f"    child = multiprocessing.get_context('fork').Process(target=exec, args=({SLOW_REMOVAL!r},"
        f" {{}}))\n    child.start(); child.join()",
    ):
        ran = subprocess.run(
            [sys.executable, "-c", command, "30000"],
            capture_output=True, text=True, check=False, timeout=300,
        )
        words = ran.stdout.split()
        assert words[:1] == ["interrupted"] and words[2:] == ["True", "False"], ran.stderr
        assert os.listdir() == ["a"]


def make_large_tree():
    """Make a tree of 20,000 names, each of which is copied as a file."""
    with open("file", "wb") as file:
        file.write(b"contents")
    for directory in range(20):
        os.makedirs(f"a/{directory}")
        for number in range(1000):
            os.link("file", f"a/{directory}/{number}")
    os.unlink("file")


SECOND_CTRL_C = """
import sys, uncopy

def progress(point):
    if point.done_entries >= int(sys.argv[1]):
        print("begun", flush=True)

try:
    uncopy.copytree("a", "b", progress=progress)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


# The second one ended the wait of the interpreter for its threads, and the process, with half of the tree.
def test_further_ctrl_c_at_the_end_leaves_nothing(place):
    make_large_tree()
    command = [sys.executable, "-c", SECOND_CTRL_C, "17000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout.readline() == "begun\n"
        ran.send_signal(signal.SIGINT)
        while ran.stdout.readline() == "begun\n":
            pass
        for _ in range(3):
            time.sleep(0.02)
            ran.send_signal(signal.SIGINT)
        ran.communicate(timeout=300)
    assert os.listdir() == ["a"]


AT_EXIT = """
import atexit

def at_exit():
    try:
        uncopy.copytree("a", "b", progress=progress)
    except KeyboardInterrupt:
        print("interrupted", flush=True)

atexit.register(at_exit)
import uncopy

def progress(point):
    if point.done_entries >= 15000:
        raise KeyboardInterrupt
"""


# The process ended with a part of the tree.
def test_a_tree_that_is_interrupted_in_a_function_of_atexit_leaves_nothing(place):
    make_large_tree()
    command = [sys.executable, "-c", AT_EXIT]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")
    assert os.listdir() == ["a"]


def test_other_handlers_end_a_tree_as_quickly(place):
    make_large_tree()
    begin = """
class Ended(Exception):
    pass

def handler(number, frame):
    raise {error}

import signal
signal.signal(signal.SIGINT, handler)
"""
    for error in ("SystemExit(3)", "Ended()"):
        code = begin.format(error=error) + SLOW_REMOVAL.replace("KeyboardInterrupt", error.split("(")[0])
        # The handler runs between two calls of `progress`.
        code = code.replace("time.sleep(0.02)", "pass")
        command = [sys.executable, "-c", code, "15000"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        # A thread removes the tree after the function has raised.
        assert ran.stdout == "interrupted 1 True False\n", ran.stderr
        assert os.listdir() == ["a"]


def test_callbacks_of_trees_stop_the_job(place):
    os.mkdir("a")
    sparse("a/large", GIBIBYTE)
    with open("a/full", "wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
    for number in range(5000):
        with open(f"a/{number}", "wb") as file:
            file.write(b"contents")
    with pytest.raises(Stop):
        uncopy.copytree("a", "b", durable=True, verify=True, progress=raising(1))
    assert os.listdir() == ["a"]


def test_a_fork_in_the_middle_of_a_copy(place):
    with open("a", "wb") as file:
        file.write(os.urandom(4 << 20))
    statuses = []

    def progress(point):
        if not statuses:
            child = os.fork()
            if child == 0:
                os._exit(7)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    receipt = uncopy.copyfile("a", "b", progress=progress)
    assert statuses == [7] and receipt.bytes == 4 << 20


def test_other_threads_run_meanwhile(place):
    """The copy waits for another thread of Python, so it cannot hold the interpreter's lock."""
    os.mkfifo("gate")
    with open("a", "wb") as file:
        file.write(os.urandom(1 << 20))
    ran = threading.Event()
    threading.Thread(target=ran.set).start()
    uncopy.copyfile("a", "b", progress=lambda point: ran.wait(60))
    assert ran.is_set()


def test_signal_handlers_run_in_a_copy(place):
    with open("a", "wb") as file:
        file.write(os.urandom(4 << 20))
    caught = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    try:
        uncopy.copyfile("a", "b", progress=lambda point: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    deadline = time.monotonic() + 60
    while not caught and time.monotonic() < deadline:
        time.sleep(0.01)
    assert caught
