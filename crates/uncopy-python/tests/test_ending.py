"""Threads that are in the package when the interpreter ends."""

import subprocess
import sys
import time

import pytest

# Work of a daemon thread that does not end by itself.
WORK = {
    "copytree": "n = 0\nwhile True:\n    n += 1\n    uncopy.copytree('tree', f'{name} {n}')",
    "copytree with ignore": (
        "n = 0\nwhile True:\n    n += 1\n    uncopy.copytree('tree', f'{name} {n}', ignore=lambda path, names: [])"
    ),
    "copytree with progress": (
        "n = 0\nwhile True:\n    n += 1\n    uncopy.copytree('tree', f'{name} {n}', progress=lambda point: time.sleep(0.01))"
    ),
    "copyfile": "while True:\n    uncopy.copyfile('small', name)",
    "copyfile with progress": "while True:\n    uncopy.copyfile('large', name, progress=lambda point: sum(range(1000)))",
    "channel": "a, b = uncopy.Channel.pair()\nwhile True:\n    a.write(b'x' * 1000)\n    b.read()",
    "waiting channel": "a, b = uncopy.Channel.pair()\nwhile True:\n    try:\n        b.read(timeout=0.001)\n    except TimeoutError:\n        pass",
    "seal": "while True:\n    uncopy.seal(b'x' * 100_000)",
    "sender": (
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "sender = uncopy.Sender(socket.create_connection(server.getsockname()))\n"
        "peer = server.accept()[0]\n"
        "while True:\n    sender.send(b'x' * 10_000)\n    peer.recv(10_000, socket.MSG_WAITALL)"
    ),
}

PROGRAM = """
import atexit, os, socket, sys, threading, time
import uncopy

def at_exit():
    uncopy.copyfile("small", "at exit")
    uncopy.seal(b"x")

atexit.register(at_exit)
for name in sys.argv[3:]:
    threading.Thread(target=exec, args=(sys.argv[1], {**globals(), "name": name}), daemon=True).start()
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "small").write_bytes(b"x" * 5000)
    (tmp_path / "large").write_bytes(bytes(64 << 20))
    for directory in range(4):
        (tmp_path / "tree" / str(directory)).mkdir(parents=True)
        for number in range(300):
            (tmp_path / "tree" / str(directory) / str(number)).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize("work", WORK)
def test_daemon_threads_end_with_the_interpreter(files, work):
    # The process ended by SIGSEGV: its threads were unwound through frames that are not made for that.
    for names in ["a"], ["a", "b"]:
        for delay in "0.01", "0.05", "0.1", "0.15":
            begin = time.monotonic()
            own = [f"{name} of {len(names)} after {delay}" for name in names]
            arguments = [sys.executable, "-c", PROGRAM, WORK[work], delay, *own]
            run = subprocess.run(arguments, cwd=files, capture_output=True, text=True, timeout=60)
            assert (run.returncode, run.stderr) == (7, ""), f"{names} {delay}"
            assert (files / "at exit").read_bytes() == b"x" * 5000
            assert time.monotonic() - begin < 30


def test_a_callback_that_does_not_return_holds_the_end_back_for_some_seconds(files):
    work = "uncopy.copyfile('large', 'copy', progress=lambda point: time.sleep(600))"
    arguments = [sys.executable, "-c", PROGRAM, work, "0.3", "a"]
    begin = time.monotonic()
    run = subprocess.run(arguments, cwd=files, capture_output=True, text=True, timeout=60)
    assert run.returncode == 7, run.stderr
    assert 4 < time.monotonic() - begin < 30


def test_a_forked_child_waits_for_no_thread_of_its_parent(files):
    program = """
import os, sys, threading, time
import uncopy
inside = threading.Event()
def wait(point):
    inside.set()
    time.sleep(1)
threading.Thread(target=lambda: uncopy.copyfile("large", "copy", progress=wait), daemon=True).start()
inside.wait()
child = os.fork()
if child == 0:
    uncopy.copyfile("small", "copy of the child")
    sys.exit(3)
begin = time.monotonic()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert code == 3, code
assert time.monotonic() - begin < 4
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=files, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert (files / "copy of the child").exists()


WAITED_FOR = {
    "copyfile": ("for number in range(60): uncopy.copyfile('small', f'copy {number}')", ""),
    "copyfile with progress": ("uncopy.copyfile('large', 'copy', progress=lambda point: None)", ""),
    "copytree": ("for number in range(3): uncopy.copytree('tree', f'copy {number}')", ""),
    "channel": ("b.read()", "a.write(b'x')"),
    "seal": ("for number in range(1000): uncopy.seal(b'x')", ""),
    "sender": ("sender.receive_into(bytearray(1))", "peer.send(b'x')"),
}

WAITS_AT_EXIT = """
import atexit, socket, sys, threading
work, wake, when = sys.argv[1:]

def at_exit():
    if when == "at exit":
        thread.start()
    exec(wake)
    thread.join()
    print("joined")

atexit.register(at_exit)
import uncopy

a, b = uncopy.Channel.pair()
server = socket.create_server(("127.0.0.1", 0))
sender = uncopy.Sender(socket.create_connection(server.getsockname()))
peer = server.accept()[0]
thread = threading.Thread(target=exec, args=(work, globals()), daemon=True)
if when == "before":
    thread.start()
"""

# Python 3.12 and later start no thread then.
STARTS = ["before", "at exit"] if sys.version_info < (3, 12) else ["before"]


@pytest.mark.parametrize("when", STARTS)
@pytest.mark.parametrize("work", WAITED_FOR)
def test_functions_that_were_registered_before_the_import_may_wait_for_threads(files, work, when):
    # It hung.
    arguments = [sys.executable, "-c", WAITS_AT_EXIT, *WAITED_FOR[work], when]
    run = subprocess.run(arguments, cwd=files, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "joined\n", "")


@pytest.mark.parametrize("early", ["atexit._run_exitfuncs()", "atexit._clear()"])
@pytest.mark.parametrize("work", WAITED_FOR)
def test_threads_go_on_after_an_end_that_was_none(files, early, work):
    code, wake = WAITED_FOR[work]
    program = WAITS_AT_EXIT + f"""
{early}
exec(wake)
thread.join()
uncopy.seal(b"x")
threading.Thread(target=exec, args=(endless, globals()), daemon=True).start()
sys.exit(7)
"""
    program = program.replace("atexit.register(at_exit)", f"endless, name = {WORK['copyfile']!r}, 'endless'")
    arguments = [sys.executable, "-c", program, code, wake, "before"]
    run = subprocess.run(arguments, cwd=files, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (7, "")
