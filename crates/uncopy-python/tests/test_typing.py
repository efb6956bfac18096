"""The stub, by a type checker: against the package as it is, and in programs of users."""

import subprocess
import sys

CONFIGURATION = """
[mypy]
# Has no stub: programs use what `uncopy` imports from it.
[mypy-uncopy._native]
ignore_missing_imports = true
"""

RIGHT = """
import shutil
import socket
from pathlib import Path

import uncopy

def seen(progress: uncopy.Progress) -> None:
    print(progress.phase, progress.done_bytes)

receipt: uncopy.Receipt = uncopy.copyfile("a", Path("b"), verify="blake3", durable=True, progress=seen)
length: int = receipt.bytes
path: str | bytes = receipt.destination
cheapest: dict[str, int] = receipt.by_cost
again: Path = Path(receipt)
with open(receipt, "rb") as file:
    file.read()
uncopy.copy(b"a", b"b", require="reflink")
uncopy.copy2(Path("a"), "b", follow_symlinks=False, in_place=True)
uncopy.copytree("a", "b", True, shutil.ignore_patterns("*.o"), dirs_exist_ok=True)
shutil.copytree("a", "b", copy_function=uncopy.copy2)
shutil.move("a", "b", copy_function=uncopy.copy2)
uncopy.move("a", Path("b"))
try:
    uncopy.copyfile("a", "b", require="zero-copy", verify=True)
except uncopy.NoMechanismError as error:
    number: int | None = error.errno
    code: str = error.code
except uncopy.CopyError as error:
    print(error.filename, error.failed_path)
try:
    uncopy.copytree("a", "b")
except OSError as error:
    failed: str | None = getattr(error, "failed_path", None)

def ignore_bytes(directory: bytes, names: list[bytes]) -> list[bytes]:
    return [name for name in names if name.endswith(b".o")]

def ignore_text(directory: str, names: list[str]) -> set[str]:
    return {name for name in names if name.endswith(".o")}

def copy_bytes(source: bytes, destination: bytes) -> bytes:
    return shutil.copy2(source, destination)

uncopy.copytree(b"a", b"b", ignore=ignore_bytes, copy_function=copy_bytes)
uncopy.copytree("a", "b", ignore=ignore_text, copy_function=shutil.copy)
uncopy.move(b"a", b"b", copy_function=copy_bytes)
verdict: str = uncopy.doctor("a", "b").verdict
print(uncopy.doctor_tcp("localhost:80").findings, uncopy.capabilities(".").filesystem)

near, far = uncopy.Channel.pair()
near.write([b"header", bytearray(9), memoryview(b"body")], [far], timeout=1.5)
message: uncopy.Message = near.read(timeout=None)
view: memoryview = message.data
with uncopy.spawn(["worker"]) as (channel, process):
    channel.write(b"work")
    status: int = process.wait()
memory: uncopy.Memory = uncopy.seal(b"bytes")
size: int = memory.map().nbytes
with uncopy.Sender(socket.socket(), mode="zerocopy", timeout=2) as sender:
    number_of_send: int = sender.send([b"a", bytearray(b"b")])
    release: uncopy.Release | None = sender.release(timeout=0)
    if release is not None and release.fate == "copied":
        print(release.id, release.bytes)
"""

# Each line is an error of its own.
WRONG = """
uncopy.copyfile("a")
uncopy.copyfile("a", "b", False)
uncopy.copyfile("a", 3)
uncopy.copy("a", "b", verify="md5")
uncopy.copy2("a", "b", require="free")
uncopy.copytree("a", "b", in_place=True)
uncopy.copytree("a", "b", ignore=["*.o"])
uncopy.copytree("a", "b", copy_function="copy2")
uncopy.move("a", "b", progress=print, in_place=True)
uncopy.copyfile("a", "b").bytes = 3
uncopy.copyfile("a", "b").size
uncopy.Channel()
uncopy.Descriptor()
uncopy.Memory()
uncopy.Message()
uncopy.OtherHandle()
uncopy.Receipt()
uncopy.Release()
uncopy.Channel.pair()[0].write("text")
uncopy.Channel.pair()[0].read(1.5)
uncopy.Sender("localhost:80")
uncopy.seal(5)
uncopy.doctor("a")
class Derived(uncopy.Receipt): ...
"""


def run(module, *arguments):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_stub_is_what_the_package_has(place):
    with open("mypy.ini", "w") as file:
        file.write(CONFIGURATION)
    with open("allowed", "w") as file:
        # Private modules have no stubs of their own.
        file.write(r"uncopy\._.*" + "\n")
    checked = run("mypy.stubtest", "uncopy", "--mypy-config-file=mypy.ini", "--allowlist=allowed")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_programs_of_users_pass(place):
    with open("program.py", "w") as file:
        file.write(RIGHT)
    checked = run("mypy", "--strict", "program.py")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_wrong_uses_are_found(place):
    lines = WRONG.strip().splitlines()
    with open("program.py", "w") as file:
        file.write("\n".join(["import uncopy", *lines]) + "\n")
    checked = run("mypy", "--strict", "program.py")
    found = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    passed = [line for number, line in enumerate(lines, start=2) if number not in found]
    assert not passed, checked.stdout + checked.stderr
