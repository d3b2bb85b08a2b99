"""What a video-question checkpoint says of itself in `streamgen.json`. Nothing heavy is imported here.

A published checkpoint has no such file; what its family is known to want then holds (frame rates and chunks
as in HERMES, arXiv 2601.14724).
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from streamgen.errors import UsageError

FILE = "streamgen.json"
LAST = "{last}"  # where guidance texts after a question name it


@dataclass(frozen=True)
class Guidance:
    """The texts whose attention says what is worth keeping; defaults are those of the paper."""

    local: str = (
        "Describe the current scene in detail, focusing on specific objects, fine-grained actions, "
        "and spatial relationships."
    )
    overall: str = (
        "Summarize the video narrative, identifying main characters, key events, timeline changes, "
        "and the overall theme."
    )
    local_after: str = "Find recent details related to: {last}. "
    overall_after: str = "Context summary: {last}. "

    def __post_init__(self) -> None:
        if not self.local.strip() or not self.overall.strip():
            raise UsageError("guidance.local and guidance.overall are the texts that guide; give words.")
        for name in ("local_after", "overall_after"):
            if LAST not in getattr(self, name):
                raise UsageError(f"guidance.{name} should say where the last question stands, with {LAST}.")

    def texts(self, question: str | None, answer: str) -> tuple[str, str, str]:
        """What shallow, middle and deep layers are guided by, after this last question and answer."""
        local, overall = self.local, self.overall
        if question is not None:
            last = f"Question: {question} Answer: {answer}"
            local = self.local_after.replace(LAST, last) + local
            overall = self.overall_after.replace(LAST, last) + overall
        return local, f"{local}; {overall}", overall


@dataclass(frozen=True)
class VideoQASettings:
    """How a checkpoint watches and answers."""

    fps: float  # frames of the source that are looked at in a second
    chunk: int  # frames that are encoded and remembered at a time
    budget: int  # video tokens that each layer keeps, unless a memory is asked for
    prompt: str  # before the video; never forgotten
    question: str  # after the video, with {question}
    choice: str  # a question with options, with {question} and {options}; it then stands for the question
    answer_tokens: int  # most tokens of an answer
    repetition_penalty: float  # on tokens that the answer has used; 1 is none
    guidance: Guidance
    frame_tokens: int | None  # most tokens of a picture, where the model takes any size

    def __post_init__(self) -> None:
        if self.fps <= 0 or self.chunk < 1 or self.budget < 1 or self.answer_tokens < 1:
            raise UsageError(
                f"fps {self.fps:g}, chunk {self.chunk}, budget {self.budget} and answer_tokens "
                f"{self.answer_tokens} describe nobody who watches; give more than 0 each."
            )
        if not self.prompt.strip():
            raise UsageError(
                "The prompt before the video is empty; give at least a word: it is never forgotten."
            )
        if "{question}" not in self.question or "{question}" not in self.choice:
            raise UsageError("The templates 'question' and 'choice' should say where {question} stands.")
        if "{options}" not in self.choice:
            raise UsageError("The template 'choice' should say where {options} stand.")
        if self.repetition_penalty <= 0:
            raise UsageError(f"A repetition_penalty of {self.repetition_penalty:g} cannot be; 1 is none.")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `streamgen.json` of a checkpoint folder, or fall back on what its family wants."""
        path = Path(folder) / FILE
        if not path.is_file():
            return cls.of_family(Path(folder))
        facts = json.loads(path.read_text(encoding="utf-8"))
        kind = facts.pop("pipeline", None)
        if kind != "videoqa":
            raise UsageError(f"{path} describes a {kind!r} checkpoint; this pipeline is for 'videoqa'.")
        return cls.of(facts, str(path))

    @classmethod
    def of(cls, facts: dict[str, Any], source: str = FILE) -> Self:
        """From the entries of a `streamgen.json`; all are needed but those in OPTIONAL."""
        known = {field.name for field in fields(cls)}
        lacking, unknown = known - OPTIONAL - facts.keys(), facts.keys() - known
        wrong = [f"lacks {', '.join(sorted(lacking))}"] if lacking else []
        wrong += [f"has unknown {', '.join(sorted(unknown))}"] if unknown else []
        if wrong:
            raise UsageError(f"{source} {' and '.join(wrong)}; its entries are {', '.join(sorted(known))}.")
        guidance = Guidance(**facts.get("guidance", {}))
        return cls(**{"choice": CHOICE, "frame_tokens": None, **facts, "guidance": guidance})

    @classmethod
    def of_family(cls, folder: Path) -> Self:
        """What a published model of a known family wants."""
        config = folder / "config.json"
        kind = json.loads(config.read_text(encoding="utf-8")).get("model_type") if config.is_file() else None
        if kind not in FAMILIES:
            raise UsageError(
                f"{folder} has no {FILE} and its model_type is {kind!r}; known families are "
                f"{', '.join(FAMILIES)}. Add a {FILE} beside config.json (docs/video-qa.md shows one)."
            )
        return cls(**FAMILIES[kind], choice=CHOICE, guidance=Guidance())


OPTIONAL = {"choice", "guidance", "frame_tokens"}
CHOICE = "Question: {question}\nOptions:\n{options}\nOnly give the best option."
_COMMON: dict[str, Any] = {"chunk": 16, "budget": 4000, "answer_tokens": 256, "repetition_penalty": 1.1}
_QWEN_PROMPT = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
_QWEN_QUESTION = "{question}<|im_end|>\n<|im_start|>assistant\n"
FAMILIES: dict[str, dict[str, Any]] = {
    "llava_onevision": {
        **_COMMON,
        "fps": 0.5,
        "frame_tokens": None,
        "prompt": "<|im_start|>system \nYou are a helpful assistant.<|im_end|><|im_start|>user ",
        "question": "\n{question}<|im_end|><|im_start|>assistant\n",
    },
    "qwen2_5_vl": {
        **_COMMON,
        "fps": 1.0,
        "frame_tokens": 256,
        "prompt": _QWEN_PROMPT + "<|vision_start|>",
        "question": "<|vision_end|>" + _QWEN_QUESTION,
    },
    "qwen3_vl": {
        **_COMMON,
        "fps": 2.0,
        "frame_tokens": 256,
        "prompt": _QWEN_PROMPT,
        "question": _QWEN_QUESTION,
    },
}
