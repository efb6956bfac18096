from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, Literal, TypeAlias

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Digest: TypeAlias = Literal["blake3", "sha256", "xxh3"]
_Require: TypeAlias = Literal[
    "none", "no-user-copy", "zero-copy", "moved", "shared", "reflink"
]
_OnProgress: TypeAlias = Callable[[Progress], object]

class CopyError(OSError):
    code: str

class NoMechanismError(CopyError): ...
class SourceChangedError(CopyError): ...
class VerificationError(CopyError): ...

class Progress:
    @property
    def phase(self) -> Literal["waiting", "copying", "flushing", "verifying"]: ...
    @property
    def done_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def done_entries(self) -> int: ...

class Receipt(PathLike[Any]):
    def __fspath__(self) -> Any: ...
    @staticmethod
    def without_bytes(destination: str | bytes, is_renamed: bool) -> Receipt: ...
    @staticmethod
    def total(destination: str | bytes, receipts: Iterable[Receipt]) -> Receipt: ...
    @property
    def destination(self) -> str | bytes: ...
    @property
    def action(self) -> Literal["copied", "linked", "renamed"]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def directories(self) -> int: ...
    @property
    def symlinks(self) -> int: ...
    @property
    def by_mechanism(self) -> dict[str, int]: ...
    @property
    def by_cost(self) -> dict[str, int]: ...
    @property
    def refusals(self) -> list[dict[str, Any]]: ...
    @property
    def is_zero_copy(self) -> bool: ...
    @property
    def durable(self) -> bool: ...
    @property
    def verified(self) -> bool: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def duration(self) -> float: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def note_codes(self) -> list[str]: ...
    def to_dict(self) -> dict[str, Any]: ...

def copyfile(
    src: _Path,
    dst: _Path,
    *,
    follow_symlinks: bool = True,
    require: _Require | None = None,
    durable: bool = False,
    verify: bool | _Digest | None = None,
    progress: _OnProgress | None = None,
) -> Receipt: ...
def copy(
    src: _Path,
    dst: _Path,
    *,
    follow_symlinks: bool = True,
    require: _Require | None = None,
    durable: bool = False,
    verify: bool | _Digest | None = None,
    progress: _OnProgress | None = None,
) -> Receipt: ...
def copy2(
    src: _Path,
    dst: _Path,
    *,
    follow_symlinks: bool = True,
    require: _Require | None = None,
    durable: bool = False,
    verify: bool | _Digest | None = None,
    progress: _OnProgress | None = None,
) -> Receipt: ...
def copytree(
    src: _Path,
    dst: _Path,
    symlinks: bool = False,
    ignore: Callable[[Any, list[str]], Iterable[str]] | None = None,
    copy_function: Callable[[str, str], object] = ...,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    require: _Require | None = None,
    durable: bool = False,
    verify: bool | _Digest | None = None,
    progress: _OnProgress | None = None,
) -> Receipt: ...
def move(
    src: _Path,
    dst: _Path,
    copy_function: Callable[[str, str], object] = ...,
    *,
    require: _Require | None = None,
    durable: bool = False,
    verify: bool | _Digest | None = None,
    progress: _OnProgress | None = None,
) -> Receipt: ...
