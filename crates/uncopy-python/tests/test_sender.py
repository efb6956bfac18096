"""Senders: memory that is lent to the kernel, and comes back."""

import asyncio
import errno
import os
import signal
import socket
import ssl
import threading

import numpy
import pytest

import uncopy


@pytest.fixture
def tcp():
    """A connection over loopback: the socket to send on, and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


def received(far, count):
    """Receive on another thread, so that a sender never waits for this one."""
    parts = []

    def receive():
        left = count
        while left and (part := far.recv(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)

    thread = threading.Thread(target=receive)
    thread.start()
    return thread, parts


@pytest.mark.parametrize("mode", ["auto", "zerocopy", "copy"])
def test_what_is_sent_arrives_and_comes_back(tcp, mode):
    near, far = tcp
    sender = uncopy.Sender(near, mode=mode)
    assert near.fileno() == -1
    data = [os.urandom(300_000), bytearray(b"small"), numpy.arange(1000.0), memoryview(b"view")]
    expected = b"".join(bytes(part) for part in data)
    thread, parts = received(far, len(expected))
    numbers = [sender.send(data[0]), sender.send(data[1:])]
    thread.join()
    assert b"".join(parts) == expected
    releases = []
    while (release := sender.release()) is not None:
        releases.append(release)
    assert sorted(release.id for release in releases) == sorted(numbers)
    assert sum(release.bytes for release in releases) == len(expected)
    assert {release.fate for release in releases} <= {"copied", "unknown", "not_copied"}
    assert "bytes, " in repr(releases[0])
    assert sender.outstanding == 0
    assert sender.close() == []
    assert far.recv(1) == b""


def test_memory_that_is_lent_cannot_be_resized(tcp):
    near, far = tcp
    sender = uncopy.Sender(near, mode="zerocopy")
    data = bytearray(b"x" * 1000)
    number = sender.send(data)
    with pytest.raises(BufferError):
        data.append(1)
    release = sender.release(timeout=60)
    assert release.id == number
    data.append(1)
    assert far.recv(1000) == b"x" * 1000
    # What is dropped is released as well.
    sender.send(data)
    far.recv(2000)
    sender.close(timeout=60)
    data.append(2)


def test_a_sender_that_is_dropped_gives_memory_back(tcp):
    near, far = tcp
    sender = uncopy.Sender(near, mode="zerocopy")
    data = bytearray(b"y" * 100_000)
    sender.send(data)
    thread, parts = received(far, len(data))
    del sender
    thread.join()
    assert b"".join(parts) == data
    while True:
        try:
            data.append(1)
            break
        except BufferError:
            pass


def test_datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        near.connect(far.getsockname())
        with uncopy.Sender(near) as sender:
            sender.send([b"one ", b"datagram"])
            sender.send(b"")
            assert far.recv(100) == b"one datagram"


def test_answers_are_received(tcp):
    near, far = tcp
    sender = uncopy.Sender(near)
    far.send(b"answer")
    room = bytearray(10)
    assert sender.receive_into(room, timeout=60) == 6 and room[:6] == b"answer"
    with pytest.raises(TimeoutError):
        sender.receive_into(room, timeout=0.01)
    with pytest.raises(TypeError):
        sender.receive_into(b"read-only")
    far.close()
    assert sender.receive_into(room, timeout=60) == 0


def test_a_peer_that_is_gone(tcp):
    near, far = tcp
    sender = uncopy.Sender(near)
    far.close()
    data = bytearray(100_000)
    with pytest.raises(OSError) as caught:
        for _ in range(1000):
            sender.send(data)
    assert isinstance(caught.value, ConnectionError)
    try:
        sender.close(timeout=60)
    except OSError:
        pass
    data.append(1)


def test_a_peer_that_does_not_read(tcp):
    near, far = tcp
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    sender = uncopy.Sender(near, timeout=0.05)
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            sender.send(bytes(1 << 20))
    sender.abort()
    sender.close(timeout=60)


class Stop(Exception):
    pass


@pytest.fixture
def alarms():
    """Take a function that becomes the handler of a signal which comes again and again, until it raises."""

    def start(handler):
        def called(number, frame):
            try:
                handler(number, frame)
            except BaseException:
                # The next one would come before the test has caught this.
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise

        signal.signal(signal.SIGALRM, called)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)

    before = signal.getsignal(signal.SIGALRM)
    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("mode", ["zerocopy", "copy"])
def test_a_signal_ends_a_send_that_waits_for_room(tcp, alarms, mode):
    near, far = tcp
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    sender = uncopy.Sender(near, mode=mode)

    def handler(number, frame):
        if sender.outstanding == 0:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        with pytest.raises(RuntimeError, match="signal handler"):
            sender.close()
        try:
            sender.send(b"x")
        except RuntimeError as refused:
            # It would wait for the send that the handler has interrupted.
            raise Stop from refused

    alarms(handler)
    data = bytearray(64 << 20)
    with pytest.raises(Stop) as caught:
        sender.send(data)
    assert "signal handler" in str(caught.value.__cause__)
    # What was taken is still sent, and the memory comes back.
    signal.setitimer(signal.ITIMER_REAL, 0)
    thread, parts = received(far, len(data))
    release = sender.release(timeout=60)
    sender.close(timeout=60)
    thread.join()
    assert 0 < sum(map(len, parts)) == release.bytes < len(data)
    data.append(1)


def test_a_signal_ends_a_close_that_waits_for_releases(tcp, alarms):
    near, far = tcp
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    sender = uncopy.Sender(near, mode="zerocopy", timeout=0.05)
    data = bytearray(64 << 20)
    with pytest.raises(TimeoutError):
        sender.send(data)

    def handler(number, frame):
        try:
            sender.outstanding
        except ValueError as closed:
            raise Stop from closed

    alarms(handler)
    with pytest.raises(Stop):
        sender.close()
    signal.setitimer(signal.ITIMER_REAL, 0)
    # As when it is dropped: the peer reads what was taken, and the memory comes back.
    thread, parts = received(far, len(data))
    thread.join()
    assert 0 < sum(map(len, parts)) < len(data)
    while True:
        try:
            data.append(1)
            break
        except BufferError:
            pass


def test_a_closed_sender(tcp):
    sender = uncopy.Sender(tcp[0])
    sender.close()
    sender.close()
    for use in (lambda: sender.send(b"x"), lambda: sender.release(), lambda: sender.outstanding):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_two_senders_on_one_socket(tcp):
    sender = uncopy.Sender(tcp[0])
    with pytest.raises(ValueError, match="closed"):
        uncopy.Sender(tcp[0])
    sender.close()


def test_sockets_that_are_refused(tcp):
    left, right = socket.socketpair()
    with left, right:
        with pytest.raises(OSError, match="take over"):
            uncopy.Sender(left)
        left.send(b"still open")
        assert right.recv(100) == b"still open"
    with pytest.raises(TypeError, match="asyncio"):
        uncopy.Sender(object())
    with pytest.raises(TypeError):
        uncopy.Sender(3)
    with pytest.raises(ValueError, match="mode"):
        uncopy.Sender(tcp[0], mode="fast")
    with pytest.raises(ValueError, match="timeout"):
        uncopy.Sender(tcp[0], timeout=-1)
    context = ssl.create_default_context()
    with context.wrap_socket(socket.socket(), server_hostname="x") as tls:
        with pytest.raises(TypeError, match="TLS"):
            uncopy.Sender(tls)
        assert tls.fileno() >= 0
    assert tcp[0].fileno() >= 0


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_sockets_without_a_peer_are_refused_and_stay_open(kind):
    with socket.socket(socket.AF_INET, kind) as alone:
        def refuse():
            with pytest.raises(OSError, match="not connected") as caught:
                uncopy.Sender(alone)
            assert caught.value.errno == errno.ENOTCONN and alone.fileno() >= 0

        refuse()
        alone.bind(("127.0.0.1", 0))
        refuse()
        if kind == socket.SOCK_STREAM:
            alone.listen()
            refuse()


def test_the_timeout_of_the_socket_counts(tcp):
    near, far = tcp
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    near.settimeout(0.05)
    sender = uncopy.Sender(near)
    with pytest.raises(TimeoutError):
        sender.receive_into(bytearray(1))
    with pytest.raises(TimeoutError):
        sender.send(bytes(64 << 20))
    sender.abort()
    sender.close(timeout=60)


def test_a_nonblocking_socket_waits(tcp):
    near, far = tcp
    near.setblocking(False)
    sender = uncopy.Sender(near)
    data = bytes(64 << 20)
    thread, parts = received(far, len(data))
    sender.send(data)
    thread.join()
    sender.close(timeout=60)


class Blocked:
    """A send of another thread that waits because the peer does not read, and what it raised."""

    def __init__(self, sender, data):
        self.raised = None
        self.thread = threading.Thread(target=self.send, args=(sender, data))
        self.thread.start()
        while sender.outstanding == 0:
            pass

    def send(self, sender, data):
        try:
            sender.send(data)
        except Exception as error:
            self.raised = error

    def ended(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.raised


@pytest.fixture
def blocked(tcp):
    near, far = tcp
    sender = uncopy.Sender(near)
    yield sender, Blocked(sender, bytes(64 << 20)), far
    sender.abort()


def test_nothing_else_waits_for_a_send(blocked):
    sender, send, far = blocked
    assert sender.outstanding == 1
    assert sender.release(timeout=0.01) is None
    with pytest.raises(TimeoutError):
        sender.receive_into(bytearray(1), timeout=0.01)
    far.send(b"answer")
    room = bytearray(10)
    assert sender.receive_into(room, timeout=60) == 6 and room[:6] == b"answer"
    assert send.thread.is_alive()
    sender.abort()
    assert isinstance(send.ended(), ConnectionAbortedError)
    with pytest.raises(ConnectionAbortedError):
        sender.receive_into(room)
    with pytest.raises(ConnectionAbortedError):
        sender.send(b"x")
    releases = [sender.release(timeout=60), sender.release(timeout=60)]
    assert sorted(release.id for release in releases) == [0, 1]
    assert sender.release() is None
    assert sender.close() == []


def test_a_close_ends_the_send_of_another_thread(blocked):
    sender, send, far = blocked
    (release,) = sender.close(timeout=0.05)
    assert isinstance(send.ended(), ConnectionAbortedError)
    assert release.id == 0 and release.bytes < 64 << 20
    with pytest.raises(ConnectionResetError):
        while far.recv(1 << 20):
            pass
    with pytest.raises(ValueError, match="closed"):
        sender.receive_into(bytearray(1))


def test_a_close_waits_for_the_send_of_another_thread(blocked):
    sender, send, far = blocked
    thread, parts = received(far, 64 << 20)
    (release,) = sender.close()
    assert send.ended() is None
    thread.join()
    assert release.bytes == sum(map(len, parts)) == 64 << 20
    assert far.recv(1) == b""


def test_a_signal_ends_a_close_that_waits_for_another_thread(blocked, alarms):
    sender, send, far = blocked

    def handler(number, frame):
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Stop

    alarms(handler)
    with pytest.raises(Stop):
        sender.close()
    # Returns at once, unless the signal came before the first.
    sender.close(timeout=0.05)
    assert isinstance(send.ended(), ConnectionAbortedError)


def test_a_send_waits_for_its_turn_no_longer_than_it_may(tcp, alarms):
    near, far = tcp
    sender = uncopy.Sender(near)
    send = Blocked(sender, bytes(64 << 20))

    data = bytearray(10)

    def handler(number, frame):
        try:
            data.append(1)
        except BufferError:
            # The send has begun to wait.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Stop

    alarms(handler)
    with pytest.raises(Stop):
        sender.send(data)
    release = sender.release(timeout=60)
    assert (release.id, release.bytes, release.fate) == (1, 0, "unsent")
    data.append(1)
    other = Blocked(sender, data)
    sender.close(timeout=0.05)
    assert isinstance(other.ended(), ValueError) and "closed" in str(other.raised)
    assert isinstance(send.ended(), ConnectionAbortedError)


@pytest.mark.parametrize("use", ["receive_into", "release"])
def test_a_wait_ends_when_the_sender_is_closed(tcp, use):
    near, far = tcp
    sender = uncopy.Sender(near)
    send = Blocked(sender, bytes(64 << 20))
    raised, begins = [], threading.Event()

    def wait():
        begins.set()
        try:
            while True:
                sender.receive_into(bytearray(1)) if use == "receive_into" else sender.release()
        except (ValueError, ConnectionAbortedError) as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    begins.wait()
    sender.close(timeout=0.05)
    thread.join(60)
    assert not thread.is_alive() and raised
    assert isinstance(send.ended(), ConnectionAbortedError)


@pytest.mark.parametrize("mode", ["auto", "zerocopy", "copy"])
def test_a_peer_that_answers_all_along(tcp, mode):
    near, far = tcp
    sender = uncopy.Sender(near, mode=mode)
    data = os.urandom(1 << 20) * 40

    def echo():
        while part := far.recv(1 << 16):
            far.sendall(part)

    echoing = threading.Thread(target=echo)
    echoing.start()
    sending = threading.Thread(target=sender.send, args=(data,))
    sending.start()
    room, answer = bytearray(1 << 16), bytearray()
    while len(answer) < len(data):
        answer += memoryview(room)[: sender.receive_into(room, timeout=60)]
    assert answer == data
    sending.join()
    sender.close(timeout=60)
    echoing.join()


def test_a_send_does_not_wait_for_a_receiver(tcp):
    near, far = tcp
    sender = uncopy.Sender(near)
    room = bytearray(10)
    received = []
    thread = threading.Thread(target=lambda: received.append(sender.receive_into(room)))
    thread.start()
    # An unfair lock would be had sooner or later; a receiver that never wakes up would not give it back.
    for _ in range(100):
        sender.send(b"ping")
    far.send(b"pong")
    thread.join(60)
    assert received == [4]
    sender.close(timeout=60)


def test_an_empty_buffer_is_full_at_once(tcp):
    sender = uncopy.Sender(tcp[0])
    assert sender.receive_into(bytearray()) == 0
    sender.close()


def test_sockets_of_asyncio_are_refused(tcp):
    async def use():
        _, writer = await asyncio.open_connection(sock=tcp[0])
        with pytest.raises(TypeError, match="event loop"):
            uncopy.Sender(writer.get_extra_info("socket"))
        writer.close()

    asyncio.run(use())


def test_objects_that_are_not_lent(tcp):
    sender = uncopy.Sender(tcp[0])
    with pytest.raises(BufferError, match="one after the other"):
        sender.send(numpy.zeros((4, 4)).T[1:, ::2])
    with pytest.raises(TypeError):
        sender.send("text")
    assert sender.outstanding == 0
    sender.close()


@pytest.mark.parametrize(
    "act",
    [
        lambda sender: sender.send(b"from the child"),
        lambda sender: sender.receive_into(bytearray(10), timeout=0),
        lambda sender: sender.release(timeout=0),
        lambda sender: sender.close(),
        lambda sender: sender.close(timeout=0),
    ],
    ids=["send", "receive_into", "release", "close", "close with a timeout"],
)
def test_after_fork_senders_refuse(tcp, act):
    sender = uncopy.Sender(tcp[0])
    child = os.fork()
    if child == 0:
        try:
            act(sender)
        except RuntimeError as error:
            os._exit(0 if "the process that forked this one" in str(error) else 3)
        except BaseException:
            os._exit(1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sender.send(b"from the parent")
    assert tcp[1].recv(100) == b"from the parent"
    sender.close()


def test_threads(tcp):
    near, far = tcp
    sender = uncopy.Sender(near)
    thread, parts = received(far, 8 * 50 * 1000)
    threads = [
        threading.Thread(target=lambda byte=byte: [sender.send(bytes([byte]) * 1000) for _ in range(50)])
        for byte in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    thread.join()
    whole = b"".join(parts)
    messages = [whole[at : at + 1000] for at in range(0, len(whole), 1000)]
    assert all(len(set(message)) == 1 for message in messages)
    sender.close()
