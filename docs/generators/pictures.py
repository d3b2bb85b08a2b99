"""Draw docs/pictures/cache-*.svg from real pools: python docs/generators/pictures.py.

Each scene does to a small cache what the page tells, and draws which slot holds which token afterwards.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from streamgen.kv import Arena, Geometry, KVCache, PagePool, SinkWindow

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
CELL, GAP, LEFT, TOP = 26, 10, 170, 30
PAGE = 4
WHITE, INK, GREY = "#ffffff", "#1c2733", "#8794a3"
RED, BLUE, GREEN, YELLOW, HATCH = "#f2b8b5", "#a9cdf2", "#b5dfb8", "#f6dc93", "url(#staged)"
HATCHING = (
    '<defs><pattern id="staged" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="6" height="6" fill="{YELLOW}"/><rect width="2" height="6" fill="#d9a520"/></pattern></defs>'
)


@dataclass
class Row:
    """One state of the pool: what is in its slots, and a word on the left."""

    words: str
    slots: dict[int, tuple[str, str]]  # slot -> (text, colour)


def pool(pages: int, tables: int = 1) -> PagePool:
    geometry = Geometry(layers=tables, kv_heads=1, head_dim=2, page_size=PAGE, layers_per_page=1)
    return PagePool(Arena(device="cpu"), geometry, pages, "drawn")


def grow(cache: KVCache, first: int, count: int, replace: int = 0) -> None:
    """Commit tokens numbered from `first`; numbers are kept as positions."""
    with cache.stage(count, positions=torch.arange(first, first + count), replace=replace) as stage:
        stage.commit()


def held(cache: KVCache, colour: str, sink: int = 0, table: int = 0) -> dict[int, tuple[str, str]]:
    """The tokens of a cache, slot by slot."""
    entries = cache.tables[table].entries
    numbers = zip(entries.slots.tolist(), entries.positions.tolist(), strict=True)
    return {slot: (str(number), RED if number < sink else colour) for slot, number in numbers}


def together(*caches: tuple[KVCache, str]) -> dict[int, tuple[str, str]]:
    """Tokens of several caches; those that more than one of them holds are green."""
    cells: dict[int, tuple[str, str]] = {}
    for cache, colour in caches:
        for slot, (text, own) in held(cache, colour).items():
            cells[slot] = (text, GREEN if slot in cells else own)
    return cells


def paged() -> list[Row]:
    shared = pool(5)
    one, two = shared.cache(name="A"), shared.cache(name="B")
    for start in (0, 4):
        grow(one, start, 4)
        grow(two, start, 3 if start else 4)
    grow(one, 8, 2)
    rows = [Row("two streams, one pool", together((one, BLUE), (two, YELLOW)))]
    two.close()
    grow(one, 10, 5)
    rows.append(Row("B closed, A grew", together((one, BLUE))))
    return rows


def ring() -> list[Row]:
    shared = pool(8)
    cache = shared.cache(SinkWindow(window=12, sink=4), reserve=16)
    rows = []
    for start in range(0, 16, 4):
        grow(cache, start, 4)
    rows.append(Row("full after 16 tokens", held(cache, BLUE, sink=4)))
    with cache.stage(4, positions=torch.arange(16, 20)) as stage:
        cells = held(cache, BLUE, sink=4)
        cells |= {slot: (str(16 + i), HATCH) for i, slot in enumerate(stage.views[0].staged.tolist())}
        undo = [page for page in range(8) if shared.pages.refs(page) and page > 3]
        cells |= {page * PAGE + i: (str(4 + i), GREY) for page in undo for i in range(PAGE)}
        rows.append(Row("16 to 19 are staged", cells))
        stage.commit()
    rows.append(Row("committed", held(cache, BLUE, sink=4)))
    for start in range(20, 36, 4):
        grow(cache, start, 4)
    rows.append(Row("a while later", held(cache, BLUE, sink=4)))
    return rows


def fork() -> list[Row]:
    shared = pool(6)
    one = shared.cache(name="A")
    grow(one, 0, 10)
    two = one.fork("B")
    rows = [Row("B is a fork of A", together((one, BLUE), (two, YELLOW)))]
    grow(two, 10, 1)
    rows.append(Row("B writes token 10", together((one, BLUE), (two, YELLOW))))
    one.close()
    rows.append(Row("A closes", together((two, YELLOW))))
    return rows


def recache() -> list[Row]:
    shared = pool(8)
    cache = shared.cache(SinkWindow(window=12, sink=4), reserve=16)
    for start in range(0, 16, 4):
        grow(cache, start, 4)
    rows = [Row("made under the old words", held(cache, BLUE, sink=4))]
    grow(cache, 12, 4, replace=4)
    new = {
        slot: (text, YELLOW if int(text) >= 12 else colour)
        for slot, (text, colour) in held(cache, BLUE, 4).items()
    }
    rows.append(Row("last: one block anew", new))
    grow(cache, 4, 12, replace=12)
    new = {
        slot: (text, colour if int(text) < 4 else YELLOW)
        for slot, (text, colour) in held(cache, BLUE, 4).items()
    }
    rows.append(Row("window: all but the sink", new))
    return rows


def layers() -> list[Row]:
    shared = pool(12, tables=3)
    cache = shared.cache()
    grow(cache, 0, 14)
    keeps = ([0, 1, 8, 9, 10, 11, 12, 13], [0, 1, 3, 6, 7, 10, 12, 13], [0, 1, 2, 5, 6, 9, 11, 12])
    before = [held(cache, BLUE, sink=2, table=table) for table in range(3)]
    cache.evict(keeps)
    after = [held(cache, BLUE, sink=2, table=table) for table in range(3)]
    names = ("shallow", "middle", "deep")
    return [
        *(Row(f"{name} layer, before", cells) for name, cells in zip(names, before, strict=True)),
        *(Row(f"{name} layer, after", cells) for name, cells in zip(names, after, strict=True)),
    ]


def draw(rows: list[Row], pages: int) -> str:
    """Rows of pages, each a box of slots."""
    width = LEFT + pages * (PAGE * CELL + GAP) + 10
    height = TOP + len(rows) * (CELL + 16)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12">{HATCHING}',
        f'<rect width="{width}" height="{height}" fill="{WHITE}"/>',
    ]
    for page in range(pages):
        x = LEFT + page * (PAGE * CELL + GAP)
        parts.append(f'<text x="{x}" y="18" fill="{GREY}">page {page}</text>')
    for number, row in enumerate(rows):
        y = TOP + number * (CELL + 16)
        parts.append(f'<text x="8" y="{y + 17}" fill="{INK}">{row.words}</text>')
        for slot in range(pages * PAGE):
            text, colour = row.slots.get(slot, ("", WHITE))
            x = LEFT + slot // PAGE * (PAGE * CELL + GAP) + slot % PAGE * CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}" stroke="{INK}"/>'
            )
            if text:
                middle = x + CELL / 2
                parts.append(
                    f'<text x="{middle:g}" y="{y + 17}" text-anchor="middle" fill="{INK}">{text}</text>'
                )
    return "\n".join([*parts, "</svg>\n"])


SCENES = {
    "paged": (paged, 5),
    "ring": (ring, 8),
    "fork": (fork, 6),
    "recache": (recache, 4),
    "layers": (layers, 12),
}


def pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {f"cache-{name}.svg": draw(scene(), pages) for name, (scene, pages) in SCENES.items()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
