"""Write the texts that were asked for, or say what writing them would take."""

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from streamgen.cli import backend
from streamgen.cli.facts import require_language_model
from streamgen.cli.output import reserved_stdout
from streamgen.cli.say import say
from streamgen.cli.text_request import TextWish

if TYPE_CHECKING:
    from streamgen.pipelines.text import TextPipeline
    from streamgen.pipelines.text_chunk import TextChunk
    from streamgen.pipelines.text_request import TextRequest

DONE = 0


def dry(wish: TextWish) -> int:
    """Print the settled wish and its memory as JSON."""
    with reserved_stdout(), load(wish) as pipe:
        requests = asked_of(pipe, wish)
        with backend.kernel_named(wish.asked.attention):
            list(pipe.stream(requests[0].prompt[:1], max_tokens=1))  # a kernel tells only then
        memories = (pipe.memory, *pipe.draft_memories)
        cache = sum(group.pool.lease.nbytes for memory in memories for group in memory.groups)
        models = (pipe.model, *pipe.drafts)
        weights = sum(weight.nbytes for model in models for weight in model.model.parameters())
        record = {
            "model": wish.asked.model,
            "drafts": list(wish.asked.drafts),
            "prompts": [len(request.prompt) for request in requests],
            "max_tokens": wish.asked.max_tokens,
            "texts": wish.texts,
            "seed": wish.seed,
            "windows": list(pipe.model.windows),
            "attention": wish.asked.attention,
            "memory_bytes": {"weights": weights, "cache": cache},
        }
    print(json.dumps(record, indent=2))
    return DONE


def write(wish: TextWish) -> int:
    """One text as it comes; several whole, in the order in which they end; or all of it as JSON lines."""
    began = time.perf_counter()
    kernel = backend.kernel_named(wish.asked.attention)
    with reserved_stdout() as stdout, load(wish) as pipe, kernel:
        chunks = iter(pipe.open(asked_of(pipe, wish)))
        loaded, tokens = time.perf_counter(), 0
        for chunk in told(wish, chunks, stdout):
            tokens += len(chunk.tokens)
        if not wish.asked.quiet:
            say(_ending(wish, pipe, tokens, time.perf_counter() - loaded, loaded - began))
    return DONE


def load(wish: TextWish) -> "TextPipeline":
    backend.quieten_libraries()
    import torch

    from streamgen.pipelines.text import TextPipeline

    asked = wish.asked
    for name, folder in zip((asked.model, *asked.drafts), (wish.folder, *wish.drafts), strict=True):
        require_language_model(name, folder)
    with backend.refusals(asked.attention):
        return TextPipeline.from_pretrained(
            wish.folder,
            draft=wish.drafts,
            widths=wish.widths,
            drawn=asked.drawn,
            device=backend.pick_device(wish.device),
            dtype=getattr(torch, wish.dtype) if wish.dtype else None,
            windows=None if asked.window is None else [asked.window],
            tokens=asked.tokens,
            texts=asked.texts,
            attention=asked.attention,
        )


def asked_of(pipe: "TextPipeline", wish: TextWish) -> "list[TextRequest]":
    """The requests; what cannot be had is refused here, before anything is computed."""
    from streamgen.pipelines.text_request import TextSampling

    asked = wish.asked
    with backend.refusals(asked.attention):
        return pipe.requests(
            wish.prompts,
            max_tokens=asked.max_tokens,
            sampling=TextSampling(asked.temperature, asked.top_k, asked.top_p, wish.seed),
            samples=asked.samples,
            beams=asked.beams,
            length_penalty=asked.length_penalty,
            ignore_stop=asked.ignore_stop,
        )


def told(wish: TextWish, chunks: "Iterator[TextChunk]", stdout: BinaryIO) -> "Iterator[TextChunk]":
    """The same chunks, each written where it belongs on its way."""
    written: dict[tuple[int, int], str] = {}
    for chunk in chunks:
        words = _words(wish, chunk)
        if wish.asked.as_json:
            _put(stdout, json.dumps(_record(chunk), ensure_ascii=False) + "\n")
        elif wish.texts == 1:
            _put(stdout, words + ("\n" if chunk.finished else ""))
        else:
            key = chunk.prompt, chunk.sample
            written[key] = written.get(key, "") + words
            if chunk.finished:
                _put(stdout, f"[{chunk.prompt + 1}.{chunk.sample + 1}] {written.pop(key)}\n")
        yield chunk


def _words(wish: TextWish, chunk: "TextChunk") -> str:
    if wish.asked.ids:
        return "".join(f"{token} " for token in chunk.tokens)
    return chunk.text


def _record(chunk: "TextChunk") -> dict[str, object]:
    record = {
        "prompt": chunk.prompt,
        "sample": chunk.sample,
        "tokens": list(chunk.tokens),
        "text": chunk.text,
    }
    if chunk.score is not None:
        record["score"] = chunk.score
    return record | ({"finished": chunk.finished} if chunk.finished else {})


def _put(stdout: BinaryIO, words: str) -> None:
    if words:
        stdout.write(words.encode())


def _ending(wish: TextWish, pipe: "TextPipeline", tokens: int, seconds: float, loading: float) -> str:
    counters = pipe.counters
    parts = [f"{wish.texts} text{'s' if wish.texts > 1 else ''}", f"{tokens} tokens"]
    if wish.asked.temperature > 0:
        parts.append(f"seed {wish.seed}")
    if counters.shared_tokens:
        parts.append(f"{counters.shared_tokens} prompt tokens shared")
    if counters.proposed:
        parts.append(f"{counters.acceptance:.0%} of drafted tokens accepted")
    if counters.parked:
        parts.append(f"parked {counters.parked} times")
    return (
        f"{', '.join(parts)}, in {seconds:.1f} s ({tokens / seconds:.1f} tokens/s), loading {loading:.1f} s."
    )
