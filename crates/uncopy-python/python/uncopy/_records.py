"""Objects of what was found out: capabilities of a path, and the doctor's reports."""

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


def capabilities(path):
    """Find out what copies at `path` can use: a file, a directory, or a name in a directory.

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
