"""One subject of a case of the suite `python`: does its operation once for each line that it reads, and prints the time.

Arguments: the case, the subject, a directory that is made, and a divisor of all sizes. The first line that is printed is
"ready"; each further one is a number of nanoseconds. Small files and trees get new names in each run, and none is deleted:
ext4 is slow to use the inodes of files that were just deleted.
"""

import functools
import itertools
import os
import shutil
import sys
import time


def main(case, subject, directory, divisor):
    os.makedirs(directory)
    os.chdir(directory)
    operation = CASES[case](subject, int(divisor))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(operation(), flush=True)


def module(name):
    return shutil if name == "shutil" else __import__("uncopy")


def timed(operation, *arguments):
    begin = time.perf_counter_ns()
    operation(*arguments)
    return time.perf_counter_ns() - begin


def fill(path, size):
    block = os.urandom(min(size, 1 << 20))
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        os.fsync(file.fileno())


def small(subject, divisor, replaces, in_place=False):
    copyfile = module(subject).copyfile
    if in_place and subject == "uncopy":
        copyfile = functools.partial(copyfile, in_place=True)
    fill("source", 4096)
    runs = itertools.count()

    def copy_all(names):
        for name in names:
            copyfile("source", name)

    def operation():
        run = next(runs)
        names = [f"copy {run} {number}" for number in range(max(200 // divisor, 10))]
        for name in names if replaces else ():
            fill(name, 4096)
        os.sync()
        return timed(copy_all, names) // len(names)

    return operation


def large(subject, divisor):
    copyfile = module(subject).copyfile
    fill("source", (1 << 30) // divisor)

    def operation():
        with open("source", "rb") as file:
            while file.read(1 << 20):
                pass
        os.sync()
        taken = timed(copyfile, "source", "copy")
        with open("copy", "rb") as file:
            os.fsync(file.fileno())
        os.unlink("copy")
        return taken

    return operation


def tree(subject, divisor):
    copytree = module(subject).copytree
    for number in range(100):
        os.makedirs(f"tree/{number}")
        for name in range(max(100 // divisor, 2)):
            with open(f"tree/{number}/{name}", "wb") as file:
                file.write(os.urandom(4096))

    runs = itertools.count()

    def operation():
        os.sync()
        return timed(copytree, "tree", f"copy {next(runs)}")

    return operation


def array(subject, divisor):
    data = bytearray(os.urandom(1 << 20) * (64 // min(divisor, 64)))
    send = {"uncopy": to_child_sealed, "pipe": to_child_by_pipe, "shared_memory": to_child_shared}
    operation = send[subject](data)
    return lambda: timed(operation)


def looked_at(view):
    """Read a byte of each page."""
    return sum(view[::4096]).to_bytes(8, "little")


def to_child_sealed(data):
    import uncopy

    spawned = uncopy.spawn([sys.executable, __file__, "child"])

    def operation():
        spawned.channel.write(b"", [uncopy.seal(data)])
        spawned.channel.read()

    return operation


def child():
    import uncopy

    channel = uncopy.Channel.inherited()
    while True:
        try:
            message = channel.read()
        except EOFError:
            break
        channel.write(looked_at(message.handles[0].map()))


def connected(target):
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    context.Process(target=target, args=(far,), daemon=True).start()
    return near


def to_child_by_pipe(data):
    near = connected(pipe_child)

    def operation():
        near.send_bytes(data)
        near.recv_bytes()

    return operation


def pipe_child(far):
    while True:
        far.send_bytes(looked_at(memoryview(far.recv_bytes())))


def to_child_shared(data):
    from multiprocessing import shared_memory

    near = connected(shared_child)

    def operation():
        memory = shared_memory.SharedMemory(create=True, size=len(data))
        memory.buf[: len(data)] = data
        near.send(memory.name)
        near.recv_bytes()
        memory.close()
        memory.unlink()

    return operation


def shared_child(far):
    from multiprocessing import shared_memory

    while True:
        memory = shared_memory.SharedMemory(far.recv())
        far.send_bytes(looked_at(memory.buf))
        memory.close()


CASES = {
    "small/new": lambda subject, divisor: small(subject, divisor, False),
    "small/replacing": lambda subject, divisor: small(subject, divisor, True),
    "small/in_place": lambda subject, divisor: small(subject, divisor, True, True),
    "large": large,
    "tree": tree,
    "array": array,
}

if __name__ == "__main__":
    if sys.argv[1] == "child":
        child()
    else:
        main(*sys.argv[1:])
