"""The package as it is installed: stubs, examples, what an import costs, interpreters that it refuses."""

import ast
import doctest
import importlib.metadata
import importlib.resources
import inspect
import os
import shutil
import subprocess
import sys

import pytest

import uncopy


def stub():
    return ast.parse((importlib.resources.files(uncopy) / "__init__.pyi").read_text())


def test_it_is_the_installed_one():
    assert "site-packages" in uncopy.__file__
    assert importlib.metadata.version("uncopy").count(".") == 2
    assert (importlib.resources.files(uncopy) / "py.typed").is_file()


def test_it_brings_its_licences_and_no_path_of_where_it_was_built():
    names = [file.name for file in importlib.metadata.files("uncopy")]
    assert {"LICENSE-APACHE", "LICENSE-MIT"} <= set(names)
    assert not [name for name in names if name.endswith(".cyclonedx.json")]


def methods_of(node, named):
    """Return the names that a class of the stub has, and those of its private bases."""
    bases = [named[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id.startswith("_")]
    own = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return own.union(*[methods_of(base, named) for base in bases])


def test_stubs_name_what_there_is():
    kinds = (ast.FunctionDef, ast.ClassDef)
    named = {node.name: node for node in stub().body if isinstance(node, kinds)}
    public_names = [name for name in named if not name.startswith("_")]
    assert sorted(public_names) == sorted(uncopy.__all__)
    for name in public_names:
        node = named[name]
        found = getattr(uncopy, name)
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.args + node.args.kwonlyargs
            if node.args.kwarg:
                arguments.append(node.args.kwarg)
            assert [a.arg for a in arguments] == list(inspect.signature(found).parameters), name
        else:
            methods = methods_of(node, named)
            public = {n for n in vars(found) if not n.startswith("_")}
            if issubclass(found, BaseException):
                public -= {"code", "failed_path"}
            assert {m for m in methods if not m.startswith("_")} == public, name


def test_stubs_say_which_classes_have_no_subclasses():
    for node in stub().body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            try:
                type("Derived", (getattr(uncopy, node.name),), {})
                is_final = False
            except TypeError:
                is_final = True
            assert ["final"] * is_final == [name.id for name in node.decorator_list], node.name


def test_stubs_take_lists_of_whatever_has_a_buffer():
    (data,) = [n for n in stub().body if isinstance(n, ast.AnnAssign) and n.target.id == "_Data"]
    # A list of bytes is no list of buffers for a type checker, but a sequence of buffers.
    assert ast.unparse(data.value) == "_Buffer | Sequence[_Buffer]"


@pytest.mark.parametrize("name", ["copyfile", "copy", "copy2", "copytree", "move"])
def test_the_first_arguments_are_those_of_shutil(name):
    theirs = list(inspect.signature(getattr(shutil, name)).parameters.values())
    ours = list(inspect.signature(getattr(uncopy, name)).parameters.values())
    for their, our in zip(theirs, ours, strict=False):
        assert (their.name, their.kind) == (our.name, our.kind)
        assert our.default is their.default or our.default is uncopy.copy2


def test_everything_has_its_words():
    for name in uncopy.__all__:
        assert inspect.getdoc(getattr(uncopy, name)), name
        if inspect.isclass(getattr(uncopy, name)):
            for member, value in vars(getattr(uncopy, name)).items():
                if not member.startswith("_") and member not in ("code", "failed_path"):
                    assert inspect.getdoc(value), f"{name}.{member}"


def test_examples(place):
    with open("a.img", "wb") as file:
        file.write(os.urandom(65536))
    os.makedirs("tree/deep")
    os.mkdir("directory")
    for name in ("tree/file", "tree/deep/file"):
        with open(name, "wb") as file:
            file.write(b"contents")
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner()
    known = {"uncopy": uncopy, "os": os, "shutil": shutil, "sys": sys}
    examples = finder.find(uncopy, "uncopy", globs=known)
    for name in uncopy.__all__:
        examples += finder.find(getattr(uncopy, name), name, globs=known)
    assert sum(len(example.examples) for example in examples) > 10
    for example in examples:
        runner.run(example)
    assert runner.summarize().failed == 0


def ran(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_an_import_loads_nothing_that_takes_long():
    code = "import sys, uncopy; print({'shutil', 'socket', 'numpy', 'typing'} & set(sys.modules))"
    paths = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-S", "-c", code]
    env = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "set()\n"


def test_free_threaded_python_is_refused():
    """The module is not loaded there: this is what such a build says of itself."""
    code = """
import sys
sys.abiflags = "t"
try:
    import uncopy
except ImportError as error:
    print("free-threaded" in str(error), "global lock" in str(error))
print([name for name in sys.modules if name.startswith("uncopy.")])
"""
    assert ran(code) == "True True\n[]\n"


IN_ANOTHER_INTERPRETER = """
try:
    import _interpreters as interpreters
    number = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    number = interpreters.create(isolated=False)
script = '''
try:
    import uncopy
except ImportError as error:
    print("subinterpreter" in str(error))
'''
BEFORE
interpreters.run_string(number, script)
interpreters.destroy(number)
"""

USED_IN_THE_FIRST = """
import uncopy
uncopy.copyfile(b"a", "b")
a, b = uncopy.Channel.pair()
a.write(b"x")
bytes(b.read())
uncopy.capabilities(".")
try:
    uncopy.copyfile("missing", "b")
except FileNotFoundError:
    print("works")
"""


@pytest.mark.parametrize("is_loaded_before", [False, True])
def test_other_interpreters_are_refused_and_the_first_one_works_then(place, is_loaded_before):
    # Functions of the other interpreter, which is gone, were called.
    with open("a", "wb") as file:
        file.write(b"contents")
    before = "import uncopy" if is_loaded_before else ""
    code = IN_ANOTHER_INTERPRETER.replace("BEFORE", before) + USED_IN_THE_FIRST
    assert ran(code) == "True\nworks\n"


def test_isolated_interpreters_are_refused():
    code = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), "try: import uncopy\\nexcept ImportError: print('refused')")
"""
    assert ran(code) == "refused\n"
