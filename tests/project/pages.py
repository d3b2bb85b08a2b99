"""The commands and snippets of a page, with what its source says about running them.

Before a block, on lines of their own, HTML comments may say (CONTRIBUTING.md explains them to writers):

    <!-- not run: REASON -->               the block is checked, not run
    <!-- not run (WORD, WORD): REASON -->  so are only its lines with one of these words in them
    <!-- first: COMMAND -->                run this before it
    <!-- first, in Python: CODE -->        the same, in the page's namespace
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
SHELL, PYTHON = ("sh", "bash", "console"), ("python", "py")

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>[\w-]*)(?P<more>.*)$")
_NOT_RUN = re.compile(r"^<!-- not run(?: \((?P<words>[^)]+)\))?: (?P<reason>.+) -->$")
_FIRST = re.compile(r"^<!-- first(?P<python>, in Python)?: (?P<what>.+) -->$")


@dataclass(frozen=True)
class Line:
    """One command; `number` is its line in the page."""

    number: int
    words: str


@dataclass
class Block:
    """One fenced block; `line` is that of its fence."""

    language: str
    line: int
    text: str
    reason: str = ""  # why it is not run
    unrun: tuple[str, ...] = ()  # only lines with one of these words are not run; empty = none is
    first: list[str] = field(default_factory=list)
    first_python: list[str] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether anything of it is run."""
        return not self.reason or bool(self.unrun)

    def commands(self, run: bool) -> Iterator[Line]:
        """Its commands that are run, or those that are only checked."""
        for line in self._lines():
            left_out = bool(self.reason) and (
                not self.unrun or any(word in line.words for word in self.unrun)
            )
            if left_out != run:
                yield line

    def _lines(self) -> Iterator[Line]:
        whole, began = "", 0
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if self.language == "console":
                if not line.startswith("$ "):
                    continue
                line = line[2:]
            began = began or number
            whole += line.removesuffix("\\")
            if line.endswith("\\"):
                continue
            if shlex.split(whole, comments=True):
                yield Line(began, whole)
            whole, began = "", 0


def blocks(text: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    found: list[Block] = []
    notes: list[str] = []
    fence, body, start = None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            if line.strip() == fence["ticks"]:
                found.append(_block(fence["language"], start, body, notes))
                fence, body, notes = None, [], []
            else:
                body.append(line.removeprefix(fence["indent"]))
        elif match := _FENCE.match(line):
            fence, start = match, number
        elif line.strip().startswith("<!--"):
            notes.append(line.strip())
        elif line.strip():
            notes = []
    assert fence is None, f"The block at line {start} does not end."
    return found


def _block(language: str, line: int, body: list[str], notes: list[str]) -> Block:
    block = Block(language, line, "\n".join(body))
    for note in notes:
        if match := _NOT_RUN.match(note):
            block.reason = match["reason"]
            block.unrun = tuple(word.strip() for word in (match["words"] or "").split(",") if word.strip())
        elif match := _FIRST.match(note):
            (block.first_python if match["python"] else block.first).append(match["what"])
        else:
            raise AssertionError(f"Line {line}: {note!r} is no note that is understood.")
    for word in block.unrun:
        assert word in block.text, f"Line {line}: {word!r} does not stand in the block."
    return block
