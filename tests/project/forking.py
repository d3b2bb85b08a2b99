"""A process that has the libraries in it and forks for every command, so that none waits for imports.

`python -m tests.project.forking SOCKET` serves; `bin(folder, socket)` makes a `streamgen` for the PATH that
asks it. A client passes its own stdin, stdout and stderr, so pipes are what they are with the real command.
"""

import array
import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

HANDS = 3  # stdin, stdout, stderr
_CLIENT = """#!{python} -IS
import array, json, os, socket, sys
talk = socket.socket(socket.AF_UNIX)
talk.connect({path!r})
words = json.dumps({{"do": "streamgen", "arguments": sys.argv[1:], "folder": os.getcwd()}}).encode()
hands = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
talk.sendmsg([len(words).to_bytes(4, "big") + words], [hands])
answer = talk.recv(1)
sys.exit(answer[0] if answer else 134)
"""
# A player that looks at a few pictures and is closed: what `| ffplay` needs, without a screen.
_PLAYER = """#!/bin/sh
if command -v ffmpeg > /dev/null
then exec ffmpeg -v error -nostdin "$@" -frames:v 6 -f null -
else exec head -c 60000 > /dev/null
fi
"""


def bin(folder: Path, path: str) -> Path:
    """A folder for the PATH: `streamgen`, which asks the server at `path`, and a player."""
    folder.mkdir()
    for name, text in {
        "streamgen": _CLIENT.format(python=sys.executable, path=path),
        "ffplay": _PLAYER,
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def ask(path: str, words: dict[str, object], hands: tuple[int, int, int], patience: float) -> int:
    """Have the server do something in a process of its own; its exit code."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(patience)
        talk.connect(path)
        told = json.dumps(words).encode()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", hands))
        talk.sendmsg([len(told).to_bytes(4, "big") + told], [rights])
        answer = talk.recv(1)
    return answer[0] if answer else 134


def serve(path: str) -> None:
    """Import, then fork for whoever asks."""
    deeds = _deeds()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            talk, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(talk, deeds)
            talk.close()


def _answer(talk: socket.socket, deeds: dict[str, Callable[[dict[str, object]], int]]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 134
    try:
        data, extra, _, _ = talk.recvmsg(2**16, socket.CMSG_SPACE(HANDS * 4))
        hands = array.array("i", extra[0][2])
        for mine, theirs in enumerate(hands):
            os.dup2(theirs, mine)
            os.close(theirs)
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            data += talk.recv(2**16)
        words = json.loads(data[4:])
        os.chdir(str(words["folder"]))
        code = deeds[str(words["do"])](words)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        talk.sendall(bytes([code]))
    os._exit(0)


def _deeds() -> dict[str, Callable[[dict[str, object]], int]]:
    import streamgen.pipelines.image
    import streamgen.pipelines.text
    import streamgen.pipelines.video
    import streamgen.pipelines.videoqa
    import streamgen.pipelines.world  # noqa: F401
    from streamgen.cli.guard import run
    from tests.project.page_run import run_page

    def command(words: dict[str, object]) -> int:
        return run([str(word) for word in words["arguments"]])  # type: ignore[attr-defined]

    return {"streamgen": command, "page": run_page}


if __name__ == "__main__":
    serve(sys.argv[1])
