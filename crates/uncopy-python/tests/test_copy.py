"""Copying files: receipts, conditions, names of every kind, errors."""

import base64
import errno
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading

import pytest

import uncopy
from conftest import read, write


def test_a_receipt_stands_for_the_path(place):
    write("a")
    receipt = uncopy.copyfile("a", pathlib.Path("b"))
    assert isinstance(receipt, os.PathLike)
    assert os.fspath(receipt) == "b" == str(receipt)
    assert read(receipt) == b"contents"
    assert pathlib.Path(receipt) == pathlib.Path("b")
    assert os.fspath(uncopy.copyfile(b"a", b"c")) == b"c"


def test_a_receipt_adds_up(place):
    write("a", bytes(range(256)) * 8192)
    receipt = uncopy.copy2("a", "b", durable=True, verify="sha256")
    assert receipt.bytes == 256 * 8192
    assert sum(receipt.by_mechanism.values()) == sum(receipt.by_cost.values()) == receipt.bytes
    assert receipt.durable and receipt.verified and len(receipt.digest) == 64
    assert receipt.action == "copied" and receipt.files == 1 and receipt.duration > 0
    for refusal in receipt.refusals:
        assert set(refusal) == {"mechanism", "code", "reason", "errno", "errno_name", "files"}
    facts = receipt.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["bytes"] == receipt.bytes and facts["algorithm"] == "sha256"
    assert sum(row["bytes"] for row in facts["mechanisms"]) == receipt.bytes
    costs = {row["cost"] for row in facts["mechanisms"]}
    assert receipt.is_zero_copy == costs.issubset({"hole", "shared", "moved"})
    text = repr(receipt)
    assert text.startswith("<uncopy.Receipt 'b'; 2.00 MiB") and "sha256" in text, text


def documented(heading):
    """Return the keys of the first level that docs/json.md has below a heading, and whether each is always there."""
    page = pathlib.Path(__file__).parents[3] / "docs/json.md"
    below = page.read_text().split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]* \| (.*) \|$", below, re.MULTILINE)
    keys = {
        key.strip("`"): not meaning.startswith("only ")
        for names, meaning in rows
        for key in names.split(", ")
    }
    return {key: is_always for key, is_always in keys.items() if not re.search(r"[.\[]", key)}


IN_EVERY_EVENT = {"schema", "event", "source", "destination"}
OF_PYTHON = {"files", "directories", "symlinks", "is_zero_copy"}


def test_keys_are_those_that_the_program_prints(place):
    write("a")
    facts = uncopy.copy2("a", b"b\xff", durable=True, verify=True).to_dict()
    keys = documented("### `copied`")
    always = {key for key, is_always in keys.items() if is_always}
    assert len(always) > 10
    assert always | IN_EVERY_EVENT | OF_PYTHON <= set(facts)
    assert set(facts) <= set(keys) | IN_EVERY_EVENT | OF_PYTHON | {"destination_base64"}
    assert facts["event"] == "copied" and facts["source"] == "a"
    assert base64.b64decode(facts["destination_base64"]) == b"b\xff"


def test_keys_of_a_tree_are_those_of_the_summary(place):
    os.mkdir("tree")
    write("tree/a")
    whole = uncopy.copytree("tree", "copy")
    added_up = uncopy.copytree("tree", "copy2", ignore=shutil.ignore_patterns("none"))
    for receipt in (whole, added_up):
        facts = receipt.to_dict()
        assert facts["event"] == "summary"
        assert facts["destination"] == str(receipt) and facts["files"] == 1
        assert facts["durable"] is facts["verified"] is False and facts["notes"] == []
        counts = {"hard_links", "specials", "skipped", "deleted", "resumed", "failed"}
        assert counts | {"bytes", "mechanisms", "refusals", "duration_us"} <= set(facts)
        assert json.loads(json.dumps(facts)) == facts
        assert {"mechanism", "reason", "code", "errno", "errno_name", "files"} == set(
            facts["refusals"][0] if facts["refusals"] else receipt.refusals[0]
        )
    write("a")
    assert uncopy.move("a", "b").to_dict()["event"] == "renamed"


def test_a_tree_is_verified_if_each_of_its_files_is(place):
    os.makedirs("tree/deep")
    for number in range(40):
        write(f"tree/{number}", bytes(number * 1000))
    write("tree/deep/large", os.urandom(3 << 20))
    os.symlink("0", "tree/link")
    ignore = shutil.ignore_patterns("none")

    def some_verified(src, dst):
        return uncopy.copy2(src, dst, verify=not src.endswith("0"))

    for name, options, expected in [
        ("whole", {"verify": "sha256"}, True),
        ("by shutil", {"verify": "sha256", "ignore": ignore}, True),
        ("not", {}, False),
        ("not by shutil", {"ignore": ignore}, False),
        ("in part", {"copy_function": some_verified}, False),
    ]:
        receipt = uncopy.copytree("tree", name, **options)
        assert receipt.verified is receipt.to_dict()["verified"] is expected, name
        assert ("verified by sha256" in repr(receipt)) is expected, receipt
        assert receipt.digest is None
    os.mkdir("empty")
    assert not uncopy.copytree("empty", "nothing", verify=True).verified


def test_an_empty_file_is_zero_copy(place):
    write("a", b"")
    assert uncopy.copyfile("a", "b").is_zero_copy
    assert read("b") == b""


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", "\udcff", "ü", "a b\n", "-x", "'\""], ids=lambda name: ascii(name)
)
def test_names_of_every_kind(place, name):
    write(name)
    copied = uncopy.copy2(name, os.fsencode("to") + os.fsencode(name))
    assert read(copied) == b"contents"
    os.mkdir("directory")
    assert read(uncopy.copy(os.fsdecode(name), "directory")) == b"contents"
    assert os.listdir(b"directory") == [os.fsencode(name)]
    with os.scandir("directory") as entries:
        entry = next(entries)
    assert read(uncopy.copyfile(entry, "of entry")) == b"contents"


IN_ASCII = """
import os, shutil, sys, uncopy
assert sys.getfilesystemencoding() == "ascii"
name = os.fsdecode(b"n\\xc3\\xa9")
def raised(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error
os.mkdir(name)
with open(name + "/file", "w"): pass
os.mkfifo(name + "/" + name)
file = name + "/file"
"""

# Each expression, and what it is of `name`.
TEXTS = [
    ("raised(uncopy.copytree, name, 'out').args[0][0][:2]", "(f'{name}/{name}', f'out/{name}')"),
    ("raised(uncopy.copytree, name, 'out').args", "raised(shutil.copytree, name, 'out').args"),
    ("raised(uncopy.copyfile, name, 'out').failed_path", "name"),
    ("raised(uncopy.copyfile, 'nope' + name, 'out').failed_path", "'nope' + name"),
    ("uncopy.copyfile(file, name + '2').to_dict()['source']", "file"),
    ("uncopy.copyfile(file, name + '2').to_dict()['destination']", "name + '2'"),
    ("str(uncopy.copyfile(file, os.fsencode(name + '2')))", "name + '2'"),
    ("uncopy.capabilities(name).path", "name"),
    ("uncopy.capabilities(file).directory", "name"),
]


# Names in UTF-8 were taken as that, whatever the encoding of the filesystem is.
@pytest.mark.parametrize(("ours", "expected"), TEXTS, ids=[ours for ours, _ in TEXTS])
def test_names_are_in_the_encoding_of_the_filesystem(place, ours, expected):
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = IN_ASCII + f"ours = {ours}\nshutil.rmtree('out', True)\n"
    code += f"expected = {expected}\nassert ours == expected, (ours, expected)"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("bad", [1, None, 1.5, ["a"]])
def test_what_is_no_path(place, bad):
    write("a")
    with pytest.raises(TypeError):
        uncopy.copyfile(bad, "b")
    with pytest.raises(TypeError):
        uncopy.copyfile("a", bad)


def test_zero_bytes_in_names(place):
    with pytest.raises(ValueError, match="null byte"):
        uncopy.copyfile("a\0", "b")
    with pytest.raises(ValueError, match="null byte"):
        uncopy.copyfile(b"a\0", "b")


def test_options_that_mean_nothing(place):
    write("a")
    with pytest.raises(ValueError, match="zero-copy"):
        uncopy.copyfile("a", "b", require="everything")
    with pytest.raises(ValueError, match="blake3"):
        uncopy.copyfile("a", "b", verify="md5")
    with pytest.raises(TypeError):
        uncopy.copyfile("a", "b", verify=3)
    with pytest.raises(TypeError):
        uncopy.copyfile("a", "b", "c")
    assert os.listdir() == ["a"]


def test_a_condition_that_cannot_be_met_leaves_the_old_file(place):
    write("b", b"old")
    with pytest.raises(uncopy.NoMechanismError) as caught:
        uncopy.copyfile("/proc/version", "b", require="shared")
    assert caught.value.errno == errno.EOPNOTSUPP
    assert caught.value.code == "no_mechanism"
    assert (caught.value.filename, caught.value.filename2) == ("/proc/version", "b")
    assert read("b") == b"old" and os.listdir() == ["b"]


def test_errors_have_both_names_and_a_next_step(place):
    with pytest.raises(FileNotFoundError) as caught:
        uncopy.copyfile("missing", "b")
    assert caught.value.errno == errno.ENOENT
    assert (caught.value.filename, caught.value.filename2) == ("missing", "b")
    assert any("missing" in note for note in caught.value.__notes__)
    with pytest.raises(FileNotFoundError):
        uncopy.copyfile(__file__, "missing/b")
    assert os.listdir() == []


def test_the_same_file(place):
    write("a")
    os.symlink("a", "b")
    for name in ("a", "./a", "b"):
        with pytest.raises(shutil.SameFileError):
            uncopy.copyfile("a", name)
    assert read("a") == b"contents"


def test_devices_are_read_and_written(place):
    write("a")
    assert uncopy.copyfile("/dev/null", "a").bytes == 0
    assert read("a") == b""
    write("a")
    uncopy.copyfile("a", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
def test_a_device_keeps_its_mode(place, function):
    """It differs from shutil, as docs/python.md says."""
    write("a")
    os.chmod("a", 0o751)
    try:
        # As /dev/null, which no test should change.
        os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.close(os.open("device", os.O_WRONLY))
    except PermissionError:
        pytest.skip("no device can be made, or opened, here")
    before = os.stat("device")
    assert function("a", "device").bytes == 8
    after = os.stat("device")
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_other_names_keep_the_old_contents_and_a_note_says_so(place):
    write("a", b"new")
    write("b", b"old")
    os.link("b", "c")
    receipt = uncopy.copyfile("a", "b")
    assert (read("b"), read("c")) == (b"new", b"old")
    assert receipt.note_codes == ["other_links"]


@pytest.fixture
def open_place(monkeypatch):
    """A directory that everybody may go to."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        monkeypatch.chdir(directory)
        yield pathlib.Path(directory)
        os.chmod(directory, 0o777)


def without_rights(code):
    """Run code in a process without root's rights."""
    begin = "import os, shutil, uncopy, uncopy._errors\n"
    drop = "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    command = [sys.executable, "-c", begin + drop + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_in_a_read_only_directory_is_written_in_place(open_place):
    write("a", b"new")
    write("b", b"old")
    os.chmod("b", 0o666)
    os.chmod(open_place, 0o555)
    ran = without_rights("print(uncopy.copyfile('a', 'b').note_codes)")
    assert (ran.returncode, ran.stdout) == (0, "['in_place']\n"), ran.stderr
    assert read("b") == b"new"


@pytest.mark.parametrize("options", ["", ", in_place=True"])
@pytest.mark.parametrize("module", ["uncopy", "shutil"])
def test_a_read_only_destination_is_refused(open_place, module, options):
    write("a", b"new")
    write("b", b"old")
    os.chmod("b", 0o444)
    given = options if module == "uncopy" else ""
    call = f"{module}.copyfile('a', 'b'{given})"
    ran = without_rights(f"try: {call}\nexcept PermissionError as error: print(error, *error.__dict__.get('__notes__', []))")
    assert ran.stdout.startswith("[Errno 13] Permission denied: "), ran
    if module == "uncopy":
        assert re.search("; (change its|check the) permissions", ran.stdout), ran
    assert read("b") == b"old"


def test_advice_names_what_these_functions_have(open_place):
    os.makedirs("a/link")
    os.symlink("..", "a/link/up")
    os.mkdir("in")
    write("in/b", b"new")
    os.makedirs("out")
    write("out/b", b"old")
    os.chmod("out/b", 0o666)
    os.chmod("out", 0o1755)
    listed = "print(*(reason for _, _, reason in error.args[0]), sep='\\n')"
    for call, advice in [
        ("uncopy.copytree('a', 'c')", "; pass symlinks=True to copytree, or remove the link"),
        ("uncopy.copytree('in', 'out', dirs_exist_ok=True)", "; copy this file alone: copyfile, copy"),
    ]:
        ran = without_rights(f"try:\n    {call}\nexcept shutil.Error as error:\n    {listed}")
        assert advice in ran.stdout, ran
        assert not any(name in ran.stdout for name in ("in_place", "existing", "links to")), ran
    assert read("out/b") == b"old"


@pytest.mark.parametrize("function", [uncopy.copyfile, uncopy.copy, uncopy.copy2])
def test_conditions_hold_for_files_that_are_written_in_place(place, function):
    write("a", b"new" * 100_000)
    write("b", b"old")
    os.link("b", "c")
    receipt = function("a", "b", in_place=True, verify=True, durable=True)
    assert receipt.verified and receipt.durable and receipt.bytes == 300_000
    assert receipt.note_codes == ["in_place", "verified_in_place"]
    assert read("c") == read("a")
    assert function("a", "new", in_place=True).note_codes == []
    with pytest.raises(TypeError):
        function("a", "b", in_place="yes")
    with pytest.raises(shutil.SameFileError):
        function("b", "c", in_place=True)
    assert read("c") == read("a")


@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_a_device_is_not_copied_to_itself(place, name, device):
    os.symlink(device, "link")
    for source, destination in [(device, device), (device, "link"), ("link", device)]:
        for module in (shutil, uncopy):
            with pytest.raises(shutil.SameFileError):
                getattr(module, name)(source, destination)


def test_threads(place):
    write("a", os.urandom(300_000))
    failed = []

    def copy(number):
        try:
            for _ in range(20):
                uncopy.copy2("a", f"to {number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=copy, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {read(f"to {number}") for number in range(8)} == {read("a")}


def test_moves_between_filesystems(place):
    other = pathlib.Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == place.stat().st_dev:
        pytest.skip("/dev/shm is no other filesystem")
    target = other / f"uncopy-test-{os.getpid()}"
    try:
        write("a")
        os.utime("a", ns=(10**18, 10**18))
        receipt = uncopy.move("a", target, verify=True)
        assert receipt.action == "copied" and receipt.verified
        assert read(target) == b"contents" and target.stat().st_mtime_ns == 10**18
        assert uncopy.move(target, "b").action == "copied"
        os.makedirs("tree/deep")
        write("tree/deep/file")
        os.symlink("nothing", "tree/link")
        receipt = uncopy.move("tree", target, verify=True)
        assert receipt.verified
        assert (receipt.files, receipt.directories, receipt.symlinks) == (1, 2, 1)
        assert os.listdir() == ["b"]
        assert os.readlink(target / "link") == "nothing"
        os.symlink("nothing", "link")
        os.unlink(target / "link")
        assert uncopy.move("link", target).action == "linked"
        assert os.readlink(target / "link") == "nothing"
    finally:
        shutil.rmtree(target, ignore_errors=True)


@pytest.mark.parametrize("name", ["file", "link"])
def test_a_source_that_cannot_be_removed_says_where_its_copy_is(open_place, name):
    target = f"/dev/shm/uncopy-test-{os.getpid()}"
    if os.stat("/dev/shm").st_dev == open_place.stat().st_dev:
        pytest.skip("/dev/shm is no other filesystem")
    os.mkdir("a")
    write("a/file")
    os.symlink("file", "a/link")
    os.chmod("a", 0o555)
    code = f"""
try:
    uncopy.move('a/{name}', '{target}')
except PermissionError as error:
    print(error.failed_path, error.filename, error.filename2, *error.__notes__)
"""
    try:
        ran = without_rights(code)
        told = f"a/{name} a/{name} {target} cannot remove a/{name}: Permission denied; the whole of it is also at {target}"
        assert ran.stdout.startswith(told), ran
        assert os.path.lexists(target) and os.path.lexists(f"a/{name}")
    finally:
        os.chmod("a", 0o755)
        pathlib.Path(target).unlink(missing_ok=True)


def test_a_directory_is_not_moved_into_itself(place):
    os.makedirs("a/b")
    with pytest.raises(shutil.Error, match="into itself"):
        uncopy.move("a", "a/b")
    assert os.path.isdir("a/b")
