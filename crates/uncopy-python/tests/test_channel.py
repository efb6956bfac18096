"""Channels, messages that are lent, sealed memory, and descriptors."""

import array
import collections.abc
import ctypes
import fcntl
import gc
import itertools
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref

import numpy
import pytest

import uncopy


def test_messages_are_gathered_and_lent():
    near, far = uncopy.Channel.pair()
    near.write([b"one", bytearray(b"two"), memoryview(b"three"), array.array("B", [33])])
    near.write(b"")
    message = far.read()
    assert bytes(message) == message.data == b"onetwothree!" and len(message) == 12
    assert message.data.readonly and message.handles == []
    assert repr(message) == "<uncopy.Message 12 bytes, 0 handles>"
    assert bytes(far.read()) == b""
    with pytest.raises(BlockingIOError):
        far.read(timeout=0)
    with pytest.raises(TimeoutError):
        far.read(timeout=0.01)


def test_views_outlive_message_and_channel():
    near, far = uncopy.Channel.pair()
    near.write(b"lent" * 1000)
    view = far.read().data
    part = view[4:8]
    view.release()
    near.close()
    far.close()
    del near, far, view
    gc.collect()
    for _ in range(20):
        left, right = uncopy.Channel.pair()
        left.write(b"other contents " * 1000)
        right.read()
    assert part == b"lent"
    with pytest.raises(TypeError):
        part[0] = 1


def test_numpy_takes_messages_and_sealed_memory_without_a_copy():
    near, far = uncopy.Channel.pair()
    numbers = numpy.arange(100_000, dtype=numpy.float64).reshape(100, 1000)
    memory = uncopy.seal([b"12345678", numbers])
    near.write(numbers[:4], [memory])
    message = far.read()
    assert (numpy.frombuffer(message.data, dtype=numpy.float64) == numbers[:4].ravel()).all()
    (received,) = message.handles
    assert received.size == len(received) >= 8 + numbers.nbytes
    view = received.map()
    there = numpy.frombuffer(view, dtype=numpy.float64, offset=8, count=numbers.size)
    assert (there == numbers.ravel()).all() and not there.flags.writeable
    assert there.__array_interface__["data"][0] % 4096 == 8
    del received, view, message
    gc.collect()
    assert there[-1] == 99_999
    assert memory.read(0, 8) == b"12345678"
    with pytest.raises(ValueError):
        memory.read(memory.size - 1, 2)


@pytest.mark.parametrize("use", [lambda b: uncopy.Channel.pair()[0].write(b), uncopy.seal])
def test_bytes_that_do_not_lie_together_are_refused(use):
    with pytest.raises(BufferError, match="one after the other"):
        use(numpy.zeros((10, 10))[:, ::2])
    with pytest.raises(BufferError, match="one after the other"):
        use(memoryview(b"12345678")[::2])
    with pytest.raises(TypeError):
        use("text")
    with pytest.raises(TypeError):
        use([b"bytes", 1])
    with pytest.raises(TypeError):
        use(None)


def test_reading_into_a_buffer():
    near, far = uncopy.Channel.pair()
    near.write(b"message")
    room = bytearray(10)
    with pytest.raises(BufferError, match="7 bytes"):
        far.read_into(memoryview(room)[:3])
    assert far.read_into(memoryview(room)[2:]) == 7
    assert room == b"\0\0message\0"
    with pytest.raises(TypeError, match="read-only"):
        far.read_into(b"1234567")


def test_a_message_that_is_too_long():
    near, far = uncopy.Channel.pair()
    with pytest.raises(ValueError, match="at most"):
        near.write(bytes(65537))
    near.write(bytes(65536))
    assert len(far.read()) == 65536


def test_the_end_of_a_channel():
    near, far = uncopy.Channel.pair()
    near.write(b"last")
    with near:
        pass
    assert near.closed and repr(near) == "<uncopy.Channel closed>"
    with pytest.raises(ValueError, match="closed"):
        near.write(b"x")
    with pytest.raises(BrokenPipeError):
        far.write(b"x")
    assert bytes(far.read()) == b"last"
    with pytest.raises(EOFError):
        far.read()


def test_a_full_queue():
    near, far = uncopy.Channel.pair()
    with pytest.raises(BlockingIOError):
        while True:
            near.write(b"x", timeout=0)
    with pytest.raises(TimeoutError):
        near.write(b"x", timeout=0.01)
    thread = threading.Thread(target=near.write, args=(b"waits",))
    thread.start()
    while bytes(far.read()) != b"waits":
        pass
    thread.join()


def test_closing_wakes_who_waits():
    near, far = uncopy.Channel.pair()
    raised = []

    def wait():
        try:
            far.read()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    far.close()
    thread.join(60)
    assert not thread.is_alive() and isinstance(raised[0], ValueError), raised
    near.close()


def test_descriptors_and_channels_move_along(place):
    near, far = uncopy.Channel.pair()
    other, rest = uncopy.Channel.pair()
    with open("file", "wb+") as file:
        file.write(b"contents")
        file.flush()
        near.write(b"handles", [other, file, file.fileno()])
        assert other.closed and not file.closed
    end, first, second = far.read().handles
    rest.write(b"through the moved end")
    assert bytes(end.read()) == b"through the moved end"
    assert os.pread(first.fileno(), 8, 0) == b"contents"
    with open(second.detach(), "rb") as again:
        assert again.seek(0) == 0 and again.read() == b"contents"
    with pytest.raises(ValueError, match="closed"):
        second.fileno()
    first.close()
    assert repr(first) == "<uncopy.Descriptor closed>"


def test_channels_stay_while_the_queue_is_full():
    near, far = uncopy.Channel.pair()
    other, rest = uncopy.Channel.pair()
    with pytest.raises(BlockingIOError):
        while True:
            near.write(b"x", timeout=0)
    with pytest.raises(BlockingIOError):
        near.write(b"", [other], timeout=0)
    with pytest.raises(TimeoutError):
        near.write(b"", [other], timeout=0.01)
    other.write(b"still works")
    assert bytes(rest.read()) == b"still works"


@pytest.mark.parametrize(
    ("is_open", "data", "others", "timeout", "expected"),
    [
        (True, bytes(65537), [], None, ValueError),
        (True, b"", [os.devnull], None, (TypeError, AttributeError)),
        (True, b"", [object()], None, (TypeError, AttributeError)),
        (True, b"", [999_999], None, OSError),
        (True, b"", [0] * 64, None, ValueError),
        (True, "text", [], None, TypeError),
        (True, memoryview(b"1234")[::2], [], None, BufferError),
        (True, b"", [], -1, ValueError),
        (False, b"", [], None, BrokenPipeError),
        (False, b"", [], 0, BrokenPipeError),
    ],
)
def test_channels_are_closed_after_every_other_error(is_open, data, others, timeout, expected):
    near, far = uncopy.Channel.pair()
    if not is_open:
        far.close()
    first, second = uncopy.Channel.pair(), uncopy.Channel.pair()
    with pytest.raises(expected):
        near.write(data, [first[0], *others, second[0]], timeout=timeout)
    for sent, rest in (first, second):
        assert sent.closed
        with pytest.raises(EOFError):
            rest.read(timeout=60)


@pytest.mark.parametrize(
    ("data", "handles", "limit"),
    [
        (bytes(65_537), (), "65,536 bytes"),
        ([bytes(40_000)] * 2, (), "65,536 bytes"),
        ([b""] * 8193, (), "8,192 buffers"),
        (b"", [0] * 65, "64 handles"),
        (b"", (0 for _ in range(65)), "64 handles"),
    ],
    ids=["bytes", "bytes of two", "buffers", "handles", "handles of an iterator"],
)
def test_errors_name_the_limit_of_a_message(data, handles, limit):
    near, far = uncopy.Channel.pair()
    with pytest.raises(ValueError, match=limit):
        near.write(data, handles)
    with pytest.raises(BlockingIOError):
        far.read(timeout=0)


# A write of handles without an end had none, not even by Ctrl-C.
@pytest.mark.parametrize("handle", [uncopy.seal(b"x"), 0, "none", uncopy.Channel.pair()[0]], ids=repr)
def test_handles_without_an_end_are_too_many(handle):
    near, far = uncopy.Channel.pair()
    taken = []

    def handles():
        yield 0
        while True:
            taken.append(handle)
            yield handle

    before = descriptors()
    expected = TypeError if handle == "none" else ValueError
    with pytest.raises(expected):
        near.write(b"", handles())
    assert len(taken) == 64 and descriptors() == before


def test_signals_are_looked_for_while_handles_are_collected():
    near, far = uncopy.Channel.pair()
    first, second = uncopy.Channel.pair(), uncopy.Channel.pair()

    class Stop(Exception):
        pass

    def stop(number, frame):
        raise Stop

    # No code of Python runs between two of them.
    raising = map(getattr(ctypes.CDLL(None), "raise"), [signal.SIGALRM])
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stop):
            near.write(b"", itertools.chain([first[0]], raising, [second[0]]))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert first[0].closed and second[0].closed
    with pytest.raises(BlockingIOError):
        far.read(timeout=0)


def test_an_end_is_not_sent_into_itself():
    near, far = uncopy.Channel.pair()
    other, rest = uncopy.Channel.pair()
    with pytest.raises(ValueError, match="in use"):
        near.write(b"", [near, other])
    assert near.closed and other.closed
    with pytest.raises(ValueError, match="closed"):
        near.write(b"", [rest])
    assert rest.closed


class Parts(collections.abc.Sequence):
    def __len__(self):
        return 2

    def __getitem__(self, at):
        return [b"one", b"two"][at]


def test_arrays_of_any_shape_and_sequences_of_any_kind():
    near, far = uncopy.Channel.pair()
    grid = numpy.arange(12).reshape(3, 4)
    for data, expected in [
        (numpy.array(5), numpy.array(5).tobytes()),
        (numpy.asfortranarray(grid), grid.tobytes("F")),
        ([numpy.array(1.5), grid.T], numpy.array(1.5).tobytes() + grid.tobytes()),
        (Parts(), b"onetwo"),
    ]:
        near.write(data)
        assert bytes(far.read()) == expected
    room = numpy.array(0)
    near.write(numpy.array(7))
    assert far.read_into(room) == 8 and room == 7


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_do_not_leak(place):
    near, far = uncopy.Channel.pair()
    memory = uncopy.seal(b"memory")
    before = descriptors()
    for _ in range(50):
        with open("/dev/null", "rb") as file:
            near.write(b"", [file, memory])
        far.read()
    assert descriptors() == before


CHILD = """
import sys, uncopy
channel = uncopy.Channel.inherited()
while True:
    try:
        message = channel.read()
    except EOFError:
        break
    if message.handles:
        view = message.handles[0].map()
        channel.write(sum(view).to_bytes(8, "little"))
    else:
        channel.write([b"child: ", message.data])
"""


def test_another_process():
    with uncopy.spawn([sys.executable, "-c", CHILD]) as (channel, process):
        channel.write([b"hello ", b"there"])
        assert bytes(channel.read(timeout=60)) == b"child: hello there"
        channel.write(b"", [uncopy.seal(bytes(range(256)) * 1000)])
        total = int.from_bytes(channel.read(timeout=60).data, "little")
        assert total == sum(range(256)) * 1000
    assert process.returncode == 0


# A block waited for programs that wait for their pipes.
@pytest.mark.parametrize(
    ("stream", "arguments", "expected"),
    [
        ("stdin", ["cat"], 0),
        ("stdout", ["yes"], -signal.SIGPIPE),
        ("stderr", ["sh", "-c", "yes >&2"], None),
    ],
)
def test_a_block_ends_as_that_of_popen(stream, arguments, expected):
    with uncopy.spawn(arguments, **{stream: subprocess.PIPE}) as (channel, process):
        too_long = threading.Timer(60, process.kill)
        too_long.start()
        if stream == "stdin":
            process.stdin.write(b"x")
    too_long.cancel()
    assert getattr(process, stream).closed and channel.closed
    assert process.returncode != -signal.SIGKILL
    assert expected is None or process.returncode == expected


def test_a_block_that_is_interrupted_ends_as_that_of_popen():
    """It waited for the program however long that went on."""
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        with uncopy.spawn(["sleep", "60"]) as (_, process):
            raise KeyboardInterrupt
    assert time.monotonic() - begin < 30
    process.kill()
    process.wait()


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_another_process_of_one_without_standard_streams(tmp_path, closed):
    """A socket with the number of a standard stream was not inherited under it."""
    code = f"""
import os, subprocess, sys, uncopy
for number in {closed}:
    os.close(number)
child = "import uncopy; channel = uncopy.Channel.inherited(); channel.write(channel.read().data)"
spawned = uncopy.spawn([sys.executable, "-c", child])
spawned.channel.write(b"hello")
with open("answer", "wb") as file:
    file.write(spawned.channel.read(timeout=60).data)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert (tmp_path / "answer").read_bytes() == b"hello"


def test_the_queue_to_another_process_is_that_of_one_that_moved():
    channel, _ = spawned = uncopy.spawn([sys.executable, "-c", "import time; time.sleep(60)"])
    near, far = uncopy.Channel.pair()
    channel.write(b"", [far])

    def room(end):
        for written in range(1 << 20):
            try:
                end.write(b"x", timeout=0)
            except BlockingIOError:
                return written

    assert abs(room(channel) - room(near)) < 10
    spawned.process.kill()
    spawned.channel.close()
    spawned.process.wait()


@pytest.mark.parametrize("timeout", [1e10, 1e19, 1e300, float("inf")])
def test_timeouts_beyond_the_clock_never_end(timeout):
    near, far = uncopy.Channel.pair()
    moved, other = uncopy.Channel.pair()
    near.write(b"x", [moved], timeout=timeout)
    far.read(timeout=timeout).handles[0].close()
    assert other.closed is False
    thread = threading.Thread(target=lambda: (time.sleep(0.2), near.write(b"late")))
    thread.start()
    assert far.read(timeout=timeout).data == b"late"
    thread.join()
    for wrong in (-1.0, float("nan"), float("-inf")):
        with pytest.raises(ValueError):
            far.read(timeout=wrong)


def test_handles_of_other_kinds_come_with_their_message():
    """An event, as a program in C or Rust sends it: 64 bytes of sealed memory, and an eventfd."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = uncopy.Channel.from_socket(left)
    memory = os.memfd_create("event", os.MFD_ALLOW_SEALING)
    os.truncate(memory, 64)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    doorbell = os.eventfd(1)
    before = len(os.listdir("/proc/self/fd"))
    header = bytes([0xC1, 0, 2, 0, 5, 0, 0, 0])
    event = struct.pack("=BBHIQ", 5, 2, 0, 0xFFFFFFFF, 0)
    plain = struct.pack("=BBHIQ", 0, 1, 0, 0xFFFFFFFF, 0)
    socket.send_fds(right, [header + b"bytes" + event + plain], [memory, doorbell, right.fileno()])
    message = channel.read(timeout=60)
    assert message.data == b"bytes"
    other, file = message.handles
    assert other.kind == "event" and repr(other) == "<uncopy.OtherHandle event>"
    assert isinstance(file, uncopy.Descriptor)
    with pytest.raises(TypeError):
        channel.write(b"", [other])
    other.close()
    file.close()
    assert other.kind is None and repr(other) == "<uncopy.OtherHandle closed>"
    assert len(os.listdir("/proc/self/fd")) == before


WORKER = """
import os, sys, uncopy
channel = uncopy.Channel.inherited()
left = [name for name in os.environ if name == "UNCOPY_CHANNEL_FD"]
if len(sys.argv) == 1:
    channel.write(repr(left).encode())
else:
    before = os.environ | {"UNCOPY_CHANNEL_FD": "0"}
    given = {
        "none": None,
        "text": dict(before),
        "bytes": {os.fsencode(name): os.fsencode(value) for name, value in before.items()},
        "both": before | {b"UNCOPY_CHANNEL_FD": b"0"},
    }
    with uncopy.spawn([sys.executable, __file__], env=given[sys.argv[1]]) as (below, process):
        channel.write(below.read(timeout=60).data)
    assert process.returncode == 0 and not left
"""


# A worker of a worker found the number of the wrong end.
@pytest.mark.parametrize("environment", ["none", "text", "bytes", "both"])
def test_a_worker_starts_another_one(place, environment):
    with open("worker.py", "w") as file:
        file.write(WORKER)
    with uncopy.spawn([sys.executable, "worker.py", environment]) as (channel, process):
        assert bytes(channel.read(timeout=60)) == b"[]"
    assert process.returncode == 0


def test_a_program_without_a_channel():
    code = "import uncopy; uncopy.Channel.inherited()"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "FileNotFoundError" in ran.stderr


def test_a_peer_that_is_killed():
    with uncopy.spawn([sys.executable, "-c", CHILD]) as (channel, process):
        channel.write(b"x")
        channel.read(timeout=60)
        process.kill()
        with pytest.raises(EOFError):
            channel.read(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_only_sockets_that_keep_messages_are_taken():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with pytest.raises(TypeError):
        uncopy.Channel.from_socket(left)
    left.send(b"still open")
    assert right.recv(100) == b"still open"
    right.close()
    left.close()
    with pytest.raises(ValueError, match="closed"):
        uncopy.Channel.from_socket(left)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as alone:
        with pytest.raises(OSError, match="not connected; connect it"):
            uncopy.Channel.from_socket(alone)
        assert alone.fileno() >= 0


def test_a_peer_that_does_not_speak_the_protocol():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = uncopy.Channel.from_socket(left)
    assert left.fileno() == -1
    with channel, right:
        right.send(b"plain bytes")
        with pytest.raises(EOFError, match="no message of a channel"):
            channel.read(timeout=60)


@pytest.mark.parametrize(
    "act",
    [
        lambda near, far: far.read(timeout=0),
        lambda near, far: far.read_into(bytearray(20), timeout=0),
        lambda near, far: near.write(b"from the child"),
        lambda near, far: near.write(b"from the child", timeout=0),
    ],
    ids=["read", "read_into", "write", "write with a timeout"],
)
def test_after_fork_ends_refuse(act):
    near, far = uncopy.Channel.pair()
    near.write(b"for the parent")
    child = os.fork()
    if child == 0:
        try:
            act(near, far)
        except RuntimeError as error:
            os._exit(0 if "the process that forked this one" in str(error) else 3)
        except BaseException:
            os._exit(1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(far.read()) == b"for the parent"


def test_ctrl_c_ends_a_wait():
    code = """
import os, signal, threading, uncopy
near, far = uncopy.Channel.pair()
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    far.read()
except KeyboardInterrupt:
    print("interrupted")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.stdout == "interrupted\n", ran.stderr


def test_memory_that_its_sender_could_change():
    near, far = uncopy.Channel.pair()
    fd = os.memfd_create("not sealed")
    os.ftruncate(fd, 4096)
    near.write(b"", [fd])
    os.close(fd)
    # Without its kind it is a descriptor, and is not lent.
    (received,) = far.read().handles
    assert isinstance(received, uncopy.Descriptor)


def test_a_buffer_is_not_resized_while_it_is_written():
    near, far = uncopy.Channel.pair()
    with pytest.raises(BlockingIOError):
        while True:
            near.write(b"x", timeout=0)
    data = bytearray(b"data")
    refused = threading.Event()
    thread = threading.Thread(target=near.write, args=(data,))
    thread.start()
    while not refused.is_set():
        try:
            data.append(1)
            data.pop()
        except BufferError:
            refused.set()
    while bytes(far.read()) != b"data":
        pass
    thread.join()
    data.append(1)


# Their buffers have no strides, which means the order of C.
@pytest.mark.parametrize(
    "made",
    [
        (ctypes.c_int * 3)(1, 2, 3),
        ((ctypes.c_char * 2) * 3)(),
        (ctypes.c_char * 0)(),
        ctypes.create_string_buffer(b"text"),
        ctypes.c_double(1.5),
        multiprocessing.RawArray("i", 5),
        numpy.array(5),
        numpy.zeros((2, 3, 4)),
        numpy.asfortranarray(numpy.arange(12).reshape(3, 4)),
    ],
    ids=lambda made: type(made).__name__,
)
def test_every_contiguous_buffer_is_taken(made):
    order = "F" if isinstance(made, numpy.ndarray) and not made.flags.c_contiguous else "C"
    expected = memoryview(made).tobytes(order)
    near, far = uncopy.Channel.pair()
    near.write(made)
    assert bytes(far.read()) == expected
    near.write([b"", made, b"!"])
    assert bytes(far.read()) == expected + b"!"
    if expected:
        assert uncopy.seal(made).read(0, len(expected)) == expected
    if len(expected) > 1 and not isinstance(made, ctypes.c_double):
        near.write(bytes(len(expected)))
        assert far.read_into(made) == len(expected)
        assert memoryview(made).tobytes(order) == bytes(len(expected))


@pytest.mark.parametrize("made", [numpy.zeros((4, 4))[:, ::2], memoryview(bytes(8))[::2]])
def test_buffers_with_gaps_are_refused(made):
    with pytest.raises(BufferError, match="do not lie one after the other"):
        uncopy.seal(made)


@pytest.mark.parametrize("bad", [None, "text", 1.5, object()])
def test_what_has_no_descriptor_is_no_handle(bad):
    near, far = uncopy.Channel.pair()
    with pytest.raises(TypeError):
        near.write(b"", [bad])
    with pytest.raises(TypeError):
        uncopy.Channel.from_socket(bad)


def test_signals_are_looked_for_while_memory_is_sealed():
    class Stop(Exception):
        pass

    def stop(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        data = bytes(256 << 20)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Stop):
            while True:
                started = time.monotonic()
                uncopy.seal([data] * 8)
        assert time.monotonic() - started < 0.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Native objects hid their contents from the garbage collector.
def test_messages_in_a_cycle_are_collected():
    near, far = uncopy.Channel.pair()
    near.write(b"contents")
    message = far.read()
    message.handles.append(message)
    gone = weakref.ref(message)
    del message
    gc.collect()
    assert gone() is None
