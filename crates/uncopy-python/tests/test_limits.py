"""Limits on threads, memory and stacks, at which functions raise instead of ending the process."""

import os
import shutil
import subprocess
import sys

import pytest

from conftest import described, write


def ran(program, *arguments, **environment):
    """Run a program of Python, and return what it wrote."""
    command = [sys.executable, "-c", program, *arguments]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


WITHOUT_THREADS = """
import sys, uncopy
try:
    getattr(uncopy, sys.argv[1])("tree", sys.argv[2])
except RuntimeError as error:
    print(error)
uncopy.copyfile("tree/a", "copy")
"""


@pytest.mark.parametrize("function", ["copytree", "move"])
def test_trees_without_another_thread_raise_what_python_raises(place, function):
    # PanicException, which is no Exception.
    there = f"/dev/shm/uncopy-test-{os.getpid()}" if function == "move" else "copy of the tree"
    if function == "move" and os.stat("/dev/shm").st_dev == os.stat(".").st_dev:
        pytest.skip("/dev/shm is no other filesystem")
    os.mkdir("tree")
    write("tree/a")
    before = described("tree")
    try:
        # No thread gets such a stack.
        words = ran(WITHOUT_THREADS, function, there, RUST_MIN_STACK=str(1 << 60))
        assert words.startswith("can't start new thread: ") and "ulimit -u" in words
        assert not os.path.exists(there)
    finally:
        shutil.rmtree(there, ignore_errors=True)
    assert described("tree") == before and sorted(os.listdir()) == ["copy", "tree"]


WITHOUT_MEMORY = """
import errno, os, resource, sys, uncopy
uncopy.copyfile("small", "copy of small", verify=True)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    uncopy.copyfile("large", "copy of large", **eval(sys.argv[2]))
except OSError as error:
    print(errno.errorcode[error.errno], *error.__notes__)
"""


@pytest.mark.parametrize("options", ["dict(verify=True)", "dict(verify='sha256', durable=True)"])
def test_a_copy_that_cannot_be_verified_for_want_of_memory_raises(place, options):
    # The process ended by SIGABRT.
    write("small")
    write("large", os.urandom(16 << 20))
    words = ran(WITHOUT_MEMORY, str(2_500_000), options)
    assert words.startswith("ENOMEM cannot read") and "memory" in words
    assert sorted(os.listdir()) == ["copy of small", "large", "small"]


WITHIN_EACH_OTHER = """
import sys, uncopy
function = getattr(uncopy, sys.argv[1])
active, copied, most = 0, 0, 0

def progress(point):
    global active, copied, most
    active += 1
    most = max(most, active)
    try:
        # Until it is called again, which small trees are too quick for.
        while True:
            copied += 1
            function("source", f"copy {copied}", progress=progress)
            if sys.argv[1] != "copytree":
                break
    finally:
        active -= 1

try:
    while True:
        copied += 1
        function("source", f"copy {copied}", progress=progress)
except RecursionError as error:
    print(most, "progress" in str(error))
points = []
uncopy.copyfile("large", "copied afterwards", progress=points.append)
print(len(points) > 0)
"""


@pytest.mark.parametrize("function", ["copyfile", "copy", "copy2", "copytree"])
def test_callbacks_within_each_other_have_an_end(place, function):
    # The process ended by SIGSEGV.
    write("large", os.urandom(1 << 20))
    if function == "copytree":
        os.mkdir("source")
        for number in range(300):
            write(f"source/{number}")
    else:
        os.link("large", "source")
    assert ran(WITHIN_EACH_OTHER, function) == "20 True\nTrue\n"
