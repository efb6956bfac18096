"""Objects of what was found out: capabilities of a path, and the doctor's reports."""

import os

from uncopy import _native


class Record:
    """Facts as attributes, which cannot be changed; `to_dict` has them all."""

    __slots__ = ("_facts",)

    def __init__(self, facts):
        object.__setattr__(self, "_facts", facts)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            found = self._facts[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no fact {name!r}") from None
        if isinstance(found, dict):
            return Record(found)
        if isinstance(found, list):
            return tuple(Record(row) for row in found)
        return found

    def __setattr__(self, name, value):
        raise AttributeError("facts cannot be changed")

    def __reduce__(self):
        return type(self), (self._facts,)

    def __dir__(self):
        return [*super().__dir__(), *self._facts]

    def __repr__(self):
        facts = ", ".join(f"{name}={value!r}" for name, value in self._facts.items())
        return f"<uncopy.{type(self).__name__} {facts}>"

    def to_dict(self):
        """Return the facts as dictionaries and lists that `json.dumps` takes."""
        return _copied(self._facts)


class Capabilities(Record):
    """What the filesystem and the device below a path can do, found out by trying.

    `reflink`, `copy_file_range`, `direct`, `holes` and others have `works` (None: unknown), `errno`, `code` and `reason`.
    """

    __slots__ = ()

    def __repr__(self):
        works = [name for name, fact in self._facts.items() if isinstance(fact, dict) and fact.get("works")]
        return f"<uncopy.Capabilities {self.path!r}: {self.filesystem}; {', '.join(works)}>"


class Report(Record):
    """Why bytes are copied on a path: `verdict`, `headline`, and `findings` with evidence, effect and next step."""

    __slots__ = ()

    def __repr__(self):
        return f"<uncopy.Report {self.verdict}: {self.headline}>"


def _copied(facts):
    if isinstance(facts, dict):
        return {name: _copied(value) for name, value in facts.items()}
    if isinstance(facts, list):
        return [_copied(value) for value in facts]
    return facts


class StoredReceipt(os.PathLike):
    """A `Receipt` as another process gets it, by `pickle`: with the same attributes and `to_dict`."""

    __slots__ = ("_shown", "_facts", "_whole")

    def __init__(self, shown, facts, whole):
        for name, value in (("_shown", shown), ("_facts", facts), ("_whole", whole)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise AttributeError("receipts cannot be changed")

    def __fspath__(self):
        return self.destination

    def __str__(self):
        return os.fsdecode(self.destination)

    def __repr__(self):
        return self._shown

    def to_dict(self):
        """Return what the `to_dict` of the receipt returned."""
        return _copied(self._whole)

    def __reduce__(self):
        return StoredReceipt, (self._shown, self._facts, self._whole)


def _fact(name, doc):
    return property(lambda self: _copied(self._facts[name]), doc=doc)


_FACTS = [
    name
    for name, found in vars(_native.Receipt).items()
    if not name.startswith("_") and hasattr(found, "__get__") and not callable(found)
]
for _name in _FACTS:
    setattr(StoredReceipt, _name, _fact(_name, getattr(_native.Receipt, _name).__doc__))


def reduced(receipt):
    """Return what `pickle` makes a receipt of."""
    facts = {name: getattr(receipt, name) for name in _FACTS}
    return StoredReceipt, (repr(receipt), facts, receipt.to_dict())


def capabilities(path):
    """Find out what copies at `path` can use: a file or a directory.

    >>> uncopy.capabilities(".").rename_noreplace.works in (True, False, None)
    True
    """
    return Capabilities(_native.capabilities(path))


def doctor(src, dst):
    """Find out why the bytes of a copy of `src` to `dst` would be copied, without copying the file.

    >>> uncopy.doctor("a.img", "b.img").verdict in ("zero_copy", "limited", "copied", "unknown")
    True
    """
    return Report(_native.doctor(src, dst))


def doctor_tcp(address):
    """Find out why bytes that are sent over TCP to `address`, "host:port", are copied or not. Nothing is sent.

    >>> uncopy.doctor_tcp("127.0.0.1:80").verdict
    'copied'
    """
    return Report(_native.doctor_tcp(address))
