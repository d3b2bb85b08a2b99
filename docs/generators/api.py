"""Write docs/api.md, the reference of the Python names, from signatures and docstrings: python docs/generators/api.py."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamgen as sg
import streamgen.kv
from streamgen.pipelines.image_preview import Preview
from streamgen.pipelines.text_chunk import TextChunk
from streamgen.pipelines.videoqa_session import VideoQASession
from streamgen.pipelines.world_prompt import Receipt
from streamgen.pipelines.world_session import WorldSession

PAGE = Path(__file__).resolve().parents[1] / "api.md"
HEAD = """# Python

Written by `docs/generators/api.py` from signatures and docstrings. The names of the first part are promises: `import streamgen as sg`, `sg.NAME`.
Every error that streamgen raises on purpose is a `StreamgenError`; a wrong argument is a `UsageError`, which is a `ValueError` as well.
"""
GIVEN = "## What they give\n\nYou do not make these; the pipelines hand them out.\n"
CACHE = """## The cache

`streamgen.kv`, for those who build a pipeline of their own. [The cache, explained](cache.md) has the pictures.
"""
SESSIONS = (sg.Chunk, WorldSession, Receipt, Preview, VideoQASession, TextChunk)
KV = (
    "PagePool",
    "Geometry",
    "KVCache",
    "Stage",
    "KeepAll",
    "SinkWindow",
    "Full",
    "Causal",
    "Tree",
    "PrefixIndex",
)


def page() -> str:
    """The whole page."""
    public = [getattr(sg, name) for name in sg.__all__ if name != "__version__"]
    parts = [
        HEAD,
        *(
            _class(kind, f"sg.{name}")
            for kind, name in zip(public, sg.__all__, strict=False)
            if kind is not sg.Chunk
        ),
        GIVEN,
        *(_class(kind, kind.__name__) for kind in SESSIONS),
        CACHE,
        *(_class(getattr(streamgen.kv, name), name) for name in KV),
    ]
    return "\n".join(parts)


def _class(kind: Any, name: str) -> str:
    made = "" if issubclass(kind, Exception) or kind in SESSIONS else _signature(kind)
    text = f"### {name}\n\n{inspect.getdoc(kind) or ''}\n"
    if made:
        text += f"\n```text\n{name}{made}\n```\n"
    fields = [
        f"`{field}`" for field in getattr(kind, "__dataclass_fields__", {}) if not field.startswith("_")
    ]
    if fields:
        text += f"\nFields: {', '.join(fields)}.\n"
    return text + "".join(_member(word, member) for word, member in _members(kind))


def _members(kind: Any) -> Iterator[tuple[str, Any]]:
    """What a class says of itself and is documented, in the order of its source."""
    for word, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not word.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            if inspect.getdoc(plain) and not hasattr(Exception, word):
                yield word, plain


def _member(word: str, member: Any) -> str:
    doc = inspect.getdoc(member).replace("\n", "\n    ")
    if isinstance(member, property):
        return f"\n- `{word}`: {doc}\n"
    return f"\n- `{word}{_signature(member)}`\n\n    {doc}\n"


def _signature(callable_: Any) -> str:
    """Names and defaults; the types are those of the code, shortened."""
    signature = inspect.signature(callable_)
    kept = [p for name, p in signature.parameters.items() if name not in ("self", "cls")]
    shown = str(signature.replace(parameters=kept))
    shown = shown.replace("numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.int64]]", "IntArray")
    return re.sub(r"(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", shown.replace("'", "").replace('"', ""))


if __name__ == "__main__":
    PAGE.write_text(page())
