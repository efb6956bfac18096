"""Copies of files and trees with the fewest copies of their bytes, and receipts that say what happened.

The functions are those of `shutil`, which they can replace:

>>> import uncopy
>>> receipt = uncopy.copy2("a.img", "b.img")
>>> receipt.bytes
65536
>>> open(receipt, "rb").read() == open("a.img", "rb").read()
True
"""

import sys as _sys

if "t" in getattr(_sys, "abiflags", ""):
    raise ImportError(
        "uncopy does not support free-threaded Python yet: use an interpreter with the global lock"
    )

from uncopy._channel import Spawned, spawn
from uncopy._errors import (
    CopyError,
    NoMechanismError,
    SourceChangedError,
    VerificationError,
)
from uncopy._native import (
    Channel,
    Descriptor,
    Memory,
    Message,
    OtherHandle,
    Progress,
    Receipt,
    Release,
    Sender,
    seal,
)
from uncopy._records import (
    Capabilities,
    Record,
    Report,
    StoredReceipt,
    capabilities,
    doctor,
    doctor_tcp,
)
from uncopy._shutil import copy, copy2, copyfile, copytree, move

__all__ = [
    "Capabilities",
    "Channel",
    "CopyError",
    "Descriptor",
    "Memory",
    "Message",
    "NoMechanismError",
    "OtherHandle",
    "Progress",
    "Receipt",
    "Record",
    "Release",
    "Report",
    "Sender",
    "SourceChangedError",
    "Spawned",
    "StoredReceipt",
    "VerificationError",
    "capabilities",
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "doctor",
    "doctor_tcp",
    "move",
    "seal",
    "spawn",
]
