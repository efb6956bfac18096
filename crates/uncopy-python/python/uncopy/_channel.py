"""Programs that are started with an end of a channel."""

import os

from uncopy._native import pair_for_program

# Name of the environment variable with the number of the descriptor that a program inherits.
_VARIABLE = "UNCOPY_CHANNEL_FD"


class Spawned:
    """A program and the channel to it: `channel, process = spawned`, or a `with` block, which ends both."""

    def __init__(self, channel, process):
        self.channel = channel
        self.process = process

    def __iter__(self):
        return iter((self.channel, self.process))

    def __enter__(self):
        return self.channel, self.process

    def __exit__(self, *exception):
        self.channel.close()
        self.process.__exit__(*exception)


def spawn(args, **arguments):
    """Start a program with one end of a new channel, and return the other end and its `subprocess.Popen`.

    The program takes its end with `Channel.inherited()`, or with `channel::Channel::inherited` in Rust. The arguments are
    those of `Popen`. A `with` block closes the channel at its end, and then ends as that of `Popen`: it closes the pipes to
    the program, and waits for it.

    >>> code = "import uncopy; uncopy.Channel.inherited().write(b'hello')"
    >>> with uncopy.spawn([sys.executable, "-c", code]) as (channel, process):
    ...     bytes(channel.read(timeout=60))
    b'hello'
    """
    import subprocess

    channel, there = pair_for_program()
    try:
        given = os.environ if arguments.get("env") is None else arguments["env"]
        # Names are text or bytes, and one may be there of each kind. That of this program's own end is not for the other.
        env = {name: value for name, value in given.items() if os.fsencode(name) != os.fsencode(_VARIABLE)}
        env[_VARIABLE] = str(there.fileno())
        arguments["env"] = env
        arguments["pass_fds"] = (*arguments.get("pass_fds", ()), there.fileno())
        return Spawned(channel, subprocess.Popen(args, **arguments))
    finally:
        there.close()
