"""What `streamgen text` was asked, checked and settled before anything heavy is imported."""

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from streamgen.cli import backend
from streamgen.cli.request import check_least, parse_device, parse_dtype, whole_numbers
from streamgen.cli.words import STDIN, is_typed, read_source, read_words, refuse_blank
from streamgen.errors import UsageError


@dataclass(frozen=True)
class TextAsked:
    """The command line as it was typed."""

    prompts: tuple[str, ...]
    lines: str | None
    ids: bool
    max_tokens: int
    ignore_stop: bool
    model: str
    drafts: tuple[str, ...]
    widths: str
    drawn: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int | None
    samples: int
    beams: int
    length_penalty: float
    window: int | None
    tokens: int
    texts: int
    attention: str
    dtype: str | None
    device: str | None
    as_json: bool
    quiet: bool


@dataclass(frozen=True)
class TextWish:
    """Texts that can be written, as far as that is known without the model."""

    asked: TextAsked
    prompts: tuple[str | tuple[int, ...], ...]
    widths: tuple[int, ...]
    seed: int
    folder: Path
    drafts: tuple[Path, ...]
    dtype: str | None
    device: str | None

    @property
    def texts(self) -> int:
        return len(self.prompts) * max(self.asked.samples, self.asked.beams)


def settle(asked: TextAsked) -> TextWish:
    """Check everything that can be checked without computing, cheapest first."""
    if not asked.prompts and asked.lines is None:
        raise UsageError("A prompt is missing; give it in quotes, as - or @FILE, or a file of --lines.")
    if [*asked.prompts, asked.lines].count(STDIN) > 1:
        raise UsageError("Standard input can be read once; give - for one prompt or for --lines.")
    for name in ("max_tokens", "samples", "beams", "tokens", "texts"):
        if getattr(asked, name) < 1:
            option = f"--{name.replace('_', '-')} {getattr(asked, name)}"
            raise UsageError(f"{option} writes nothing; give a whole number from 1 on.")
    if asked.drawn and not asked.drafts:
        raise UsageError("--drawn says how a draft proposes, and there is none; give --draft MODEL too.")
    check_least("--seed", asked.seed, 0)
    _check_texts(asked)
    widths = whole_numbers(asked.widths.split(","))
    if widths is None:
        raise UsageError(f"--widths {asked.widths} is no list of whole numbers such as 3,2,1.")
    dtype, device = parse_dtype(asked.dtype), parse_device(asked.device)
    folder = backend.folder_of(asked.model)
    drafts = tuple(backend.folder_of(name) for name in asked.drafts)
    words = [*map(_whole, asked.prompts), *(_lines(asked.lines) if asked.lines is not None else ())]
    return TextWish(
        asked=asked,
        prompts=tuple(_numbers(prompt) if asked.ids else prompt for prompt in words),
        widths=widths,
        seed=secrets.randbelow(2**32) if asked.seed is None else asked.seed,
        folder=folder,
        drafts=drafts,
        dtype=dtype,
        device=device,
    )


def _whole(prompt: str) -> str:
    """Words as they are typed; a file or standard input without its last line break."""
    words = read_words(prompt)
    if is_typed(prompt):
        return words
    refuse_blank(words, prompt)
    return words.removesuffix("\n")


def _lines(source: str) -> list[str]:
    lines = [line for line in read_source(source, "prompt").split("\n") if line.strip()]
    if not lines:
        where = "standard input" if source == STDIN else source
        raise UsageError(f"There is no prompt in {where}; write one a line.")
    return lines


def _numbers(prompt: str) -> tuple[int, ...]:
    numbers = whole_numbers(re.findall(r"[^,\s]+", prompt))
    if not numbers:
        raise UsageError(f"{prompt!r} is no list of token numbers such as 5,17,2.")
    return numbers


def _check_texts(asked: TextAsked) -> None:
    for name in ("samples", "beams"):
        count = getattr(asked, name)
        if count > asked.texts:
            raise UsageError(
                f"--{name} {count} is more than the {asked.texts} that are written at once; give fewer, or "
                f"--texts {count}."
            )
