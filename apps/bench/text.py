"""Texts: beside transformers' caches, with and without a draft; what sharing saves; how long people wait."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from streamgen.kv.arena import format_bytes
from streamgen.pipelines.text import TextPipeline
from streamgen.runtime.latency import Objective, TextMeter

from .text_rivals import SIZES, Size, Timing, clock, compare, generated, ours, pipes, prompts_of, rival, stock
from .text_sharing import Saved, Trace, measure_all

INCLUDED = "prompts and new tokens, from ids to ids; loading and one round to warm up are not in it"
TRACES = {"mid": Trace(), "tiny": Trace(3, 12, 10)}
COUNTS = {"mid": (2, 4, 6), "tiny": (2,)}


def run(
    json_output: bool = False,
    size: str = "mid",
    rounds: int = 3,
    page_size: int = 4,
    attention: str = "auto",
    objective: Objective | None = None,
    part: str = "all",
) -> dict[str, object]:
    """Measure and print; part: all, speed or sharing."""
    scale = SIZES[size]
    timings, agreement, waits, shared = [], 1.0, {}, []
    if part != "sharing":
        timings, agreement = beside_transformers(scale, rounds, attention)
        waits = waiting(scale, attention, objective or Objective(first=10.0, gap=1.0))
    if part != "speed":
        shared = measure_all(TRACES[size], page_size, COUNTS[size])
    about: dict[str, object] = {
        "included": INCLUDED,
        "model": asdict(scale),
        "threads": torch.get_num_threads(),
        "clock": clock().__name__,
        "torch": torch.__version__,
        "rounds": rounds,
        "tokens_that_agree": agreement,
        "timings": [asdict(timing) for timing in timings],
        "waiting": waits,
        "trace": asdict(TRACES[size]),
        "sharing": [asdict(row) for row in shared],
    }
    print(json.dumps(about, indent=2) if json_output else "\n".join(table(about, timings, waits, shared)))
    return about


def beside_transformers(size: Size, rounds: int, attention: str) -> tuple[list[Timing], float]:
    """One stream, then streams that share a prefix, each with every cache; the tokens must agree."""
    model = stock(size)
    plain, speculating = pipes(size, attention)
    timings, agreements = [], []
    with plain, speculating:
        for streams in (1, size.streams):
            prompts = prompts_of(size, streams)
            runs = {}
            for kind in ("DynamicCache", "StaticCache"):
                runs[f"{kind}, bare loop"] = rival(model, kind, prompts, size.tokens)
                runs[f"{kind}, generate"] = generated(model, kind, prompts, size.tokens)
            runs["streamgen"] = ours(plain, prompts, size.tokens)
            runs["streamgen, drafted"] = ours(speculating, prompts, size.tokens)
            before = replace(speculating.counters)
            some, agreement = compare(runs, rounds, size.tokens, streams)
            accepted = speculating.counters.accepted - before.accepted
            some[-1] = replace(
                some[-1], acceptance=accepted / (speculating.counters.proposed - before.proposed)
            )
            timings += some
            agreements.append(agreement)
    return timings, min(agreements)


def waiting(size: Size, attention: str, objective: Objective) -> dict[str, object]:
    """All streams ask at once: what each of them waits, and the bytes of the cache at its fullest."""
    plain, speculating = pipes(size, attention)
    prompts, meter = prompts_of(size, size.streams), TextMeter()
    speculating.close()
    with plain:
        for number in range(len(prompts)):
            meter.arrive(number)
        held = 0
        for chunk in plain.stream(prompts, max_tokens=size.tokens, ignore_stop=True):
            meter.add(chunk.prompt, len(chunk.tokens))
            held = max(held, _held(plain))
        return {
            **meter.summary(objective),
            "cache_bytes": held,
            "cache_bytes_unshared": _unshared(plain, prompts, size.tokens),
        }


def _held(pipe: TextPipeline) -> int:
    pools = [group.pool for group in pipe.memory.groups]
    return sum((pool.pages.total - pool.pages.free) * pool.geometry.page_bytes for pool in pools)


def _unshared(pipe: TextPipeline, prompts: Sequence[Sequence[int]], tokens: int) -> int:
    pools = [group.pool.geometry for group in pipe.memory.groups]
    return sum(
        geometry.pages(len(prompt) + tokens) * geometry.page_bytes for prompt in prompts for geometry in pools
    )


def table(
    about: dict[str, object], timings: Sequence[Timing], waits: dict[str, Any], shared: Sequence[Saved]
) -> list[str]:
    """Lines for people."""
    lines = _speed(about, timings, waits) if timings else []
    return lines + (_sharing(about, shared) if shared else [])


def _speed(about: dict[str, object], timings: Sequence[Timing], waits: dict[str, Any]) -> list[str]:
    lines = [
        f"Included: {about['included']}.",
        f"Model: {about['model']}, {about['threads']} thread(s), {about['clock']}, "
        f"{about['rounds']} rounds; {about['tokens_that_agree']:.1%} of the tokens agree.",
        f"{'cache':22}{'streams':>8}{'prompt s':>10}{'new s':>8}{'tokens/s':>10}{'new/s':>8}{'accepted':>10}",
    ]
    for one in timings:
        accepted = "" if one.acceptance is None else f"{one.acceptance:.0%}"
        lines.append(
            f"{one.name:22}{one.streams:8}{one.prompt_s:10.2f}{one.new_s:8.2f}{one.tokens_per_s:10.1f}"
            f"{one.new_tokens_per_s:8.1f}{accepted:>10}"
        )
    lines += ["", "Waiting, all streams asked at once:"]
    for name in ("first_token_s", "gap_s", "latency_s"):
        ranks = ", ".join(f"{rank} {value:.3f}" for rank, value in waits[name].items())
        lines.append(f"  {name:16}{ranks}")
    lines.append(
        f"  {waits['tokens_per_s']:.1f} tokens/s; {waits['good_texts_per_s']:.3f} texts/s within "
        f"{waits['objective_s']} over {waits['window_s']:.1f} s; cache {format_bytes(waits['cache_bytes'])} "
        f"({format_bytes(waits['cache_bytes_unshared'])} without sharing)"
    )
    return lines


def _sharing(about: dict[str, object], shared: Sequence[Saved]) -> list[str]:
    lines = ["", f"Sharing, {about['trace']}, pages of {shared[0].page_size}:"]
    lines.append(
        f"{'kind':16}{'saved':>8}{'fill':>8}{'copies':>8}{'peak':>12}{'unshared':>12}{'prompt saved':>14}"
    )
    for row in shared:
        lines.append(
            f"{row.kind:16}{row.saved:8.1%}{row.fill:8.1%}{row.most_copies:8}"
            f"{format_bytes(row.peak_bytes):>12}{format_bytes(row.unshared_peak_bytes):>12}"
            f"{row.prompt_tokens_saved:14.1%}"
        )
    return lines


if __name__ == "__main__":
    run()
