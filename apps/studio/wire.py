"""The language between page and server: JSON words both ways, and binary pictures to the page.

A picture: four bytes with the length of a JSON head, the head, and the JPEGs whose sizes it lists.
Shapes: H height, W width.
"""

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamgen.errors import UsageError

from .screen import Picture

LONGEST = 64 * 1024  # characters of one message
QUALITY = 92
Words = dict[str, Any]
Kinds = dict[str, tuple[Callable[[Any], bool], str]]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TEXT, WHOLE, NUMBER = (_text, "text"), (_whole, "a whole number"), (_number, "a number")
FLAG = (lambda value: isinstance(value, bool), "true or false")
LIST = (lambda value: isinstance(value, list), "a list")
# What may be done, and what each word of it is.
WORDS: dict[str, Kinds] = {
    "shown": {"picture": WHOLE},
    "alive": {},
    "down": {"key": TEXT},
    "up": {"key": TEXT},
    "mouse": {"x": NUMBER, "y": NUMBER},
    "start": {"prompt": TEXT, "seed": WHOLE, "opening": TEXT, "upload": TEXT},
    "prompt": {"text": TEXT, "mode": TEXT, "over": WHOLE, "pin_sink": FLAG, "branch": WHOLE},
    "pause": {},
    "resume": {},
    "undo": {},
    "fork": {},
    "keep": {"branch": WHOLE},
    "reset": {},
    "stop": {},
    "record": {},
    "watch": {"source": TEXT, "name": TEXT, "pace": TEXT, "memory": TEXT, "budget": WHOLE},
    "ask": {"question": TEXT, "at": NUMBER},
    "open": {"name": TEXT, "session": TEXT},
    "seek": {"chunk": WHOLE},
    "speed": {"rate": NUMBER},
    "read": {"document": TEXT},
    "write": {
        "question": TEXT, "document": TEXT, "way": TEXT, "samples": WHOLE, "temperature": NUMBER,
        "top_k": WHOLE, "seed": WHOLE, "max_tokens": WHOLE, "drafted": FLAG,
    },
    "edit": {
        "picture": WHOLE, "upload": TEXT, "mask": TEXT, "label": TEXT, "variants": WHOLE, "seed": WHOLE,
        "preset": TEXT, "cfg": NUMBER,
    },
    "image": {
        "labels": LIST, "seed": WHOLE, "preset": TEXT, "cfg": NUMBER, "top_k": WHOLE, "top_p": NUMBER,
        "more_smooth": FLAG,
    },
}  # fmt: skip

NEEDED = {
    "shown": "picture",
    "down": "key",
    "up": "key",
    "start": "prompt",
    "prompt": "text",
    "keep": "branch",
    "watch": "source",
    "ask": "question",
    "open": "name",
    "seek": "chunk",
    "speed": "rate",
    "read": "document",
    "write": "question",
    "edit": "mask",
}


def read(message: str | bytes) -> Words:
    """One message of a page, checked; what is not understood is refused with a sentence."""
    if isinstance(message, bytes):
        raise UsageError(f"{len(message)} bytes came; this server reads JSON text, such as {{'do': 'undo'}}.")
    if len(message) > LONGEST:
        raise UsageError(f"The message has {len(message)} characters; at most {LONGEST} are read.")
    try:
        words = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{message[:40]!r} is not JSON such as {{'do': 'undo'}}.") from error
    kinds = WORDS.get(str(words.get("do"))) if isinstance(words, dict) else None
    if kinds is None:
        raise UsageError(f"{message[:40]!r} does nothing here; 'do' is one of {', '.join(WORDS)}.")
    needed = NEEDED.get(words["do"])
    if needed is not None and needed not in words:
        raise UsageError(f"{words['do']!r} needs {needed!r}; it takes {', '.join(kinds)}.")
    return {"do": words["do"], **{name: _checked(words, name, kinds) for name in words if name != "do"}}


def pack(number: int, picture: Picture) -> bytes:
    """A picture for the page, which answers {"do": "shown", "picture": number}."""
    jpegs = [jpeg(image) for image in picture.images]
    head = json.dumps({**picture.facts, "picture": number, "sizes": [len(one) for one in jpegs]}).encode()
    return struct.pack("<I", len(head)) + head + b"".join(jpegs)


def unpack(message: bytes) -> tuple[Words, list[bytes]]:
    """The head of a picture and its JPEGs."""
    (length,) = struct.unpack_from("<I", message)
    head, rest = json.loads(message[4 : 4 + length]), message[4 + length :]
    jpegs: list[bytes] = []
    for size in head["sizes"]:
        jpegs.append(rest[:size])
        rest = rest[size:]
    return head, jpegs


def jpeg(image: NDArray[np.uint8]) -> bytes:
    """[H, W, 3] as a JPEG with full colour: small pictures are enlarged by the page."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


def _checked(words: Words, name: str, kinds: Kinds) -> Any:
    if name not in kinds:
        known = ", ".join(kinds) or "nothing else"
        raise UsageError(f"{words['do']!r} knows no {name[:40]!r}; it takes {known}.")
    fits, kind = kinds[name]
    if not fits(words[name]):
        raise UsageError(f"{name!r} of {words['do']!r} is {kind}, not {str(words[name])[:40]!r}.")
    return words[name]
