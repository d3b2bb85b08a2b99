"""What the bench says of sharing is what the pool did, and as much as the docs claim."""

import pytest
import torch

from apps.bench.text_sharing import Saved, Trace, copying, measure, measure_all
from streamgen.kv import Arena, Geometry, KeepAll, PagePool, stage_together

FEW = (2, 4, 6)


@pytest.fixture(scope="module")
def rows() -> dict[str, Saved]:
    """The first requests of the default trace, which take a third of the time of all."""
    return {row.kind: row for row in measure_all(Trace(requests=4), 4, FEW)}


def test_slots_in_use_are_full_whatever_is_shared(rows: dict[str, Saved]) -> None:
    assert len(rows) == 9
    assert {kind: row.fill for kind, row in rows.items() if row.fill < 0.96} == {}


def test_no_text_copies_more_than_one_page_in_a_step(rows: dict[str, Saved]) -> None:
    assert {kind: row.most_copies for kind, row in rows.items() if row.most_copies > 1} == {}
    assert rows["alone"].most_copies == 0
    assert all(rows[f"{count} {kind}"].most_copies == 1 for count in FEW for kind in ("samples", "beams"))


def test_more_texts_of_one_beginning_save_more_and_beams_more_than_samples(rows: dict[str, Saved]) -> None:
    assert rows["alone"].saved == 0
    samples, beams = ([rows[f"{count} {kind}"] for count in FEW] for kind in ("samples", "beams"))
    prefixes = [rows["prefix of 80"], rows["prefix of 341"]]
    for kind in (samples, beams, prefixes):
        assert 0 < kind[0].saved < kind[1].saved and kind[-2].saved < kind[-1].saved
        assert all(row.peak_bytes < row.unshared_peak_bytes for row in kind)
        parts = [row.peak_bytes / row.unshared_peak_bytes for row in kind]
        assert kind is samples or parts == sorted(parts, reverse=True)
    assert all(few.saved < many.saved for few, many in zip(samples, beams, strict=True))


def test_prefixes_are_computed_once(rows: dict[str, Saved]) -> None:
    assert 0.2 < rows["prefix of 80"].prompt_tokens_saved < rows["prefix of 341"].prompt_tokens_saved
    assert all(row.prompt_tokens_saved == 0 for kind, row in rows.items() if "prefix" not in kind)


def test_a_shared_prefix_is_stored_once() -> None:
    prefixed = measure("prefix", Trace(requests=4, prompt=16, output=8), 4, prefix=80)
    assert prefixed.peak_bytes < prefixed.unshared_peak_bytes / 2  # four texts, 80 of about 100 tokens
    assert prefixed.saved > 0.3 and prefixed.prompt_tokens_saved > 0.5


def test_copies_are_counted_for_each_text_and_not_on_average() -> None:
    """Of three texts that write at once, one has a fork at every write and so copies a page at each."""
    pool = PagePool(Arena(), Geometry(1, 1, 2, 8, torch.float32), 16)
    texts = [pool.cache(KeepAll()) for _ in range(3)]
    forks = []
    with copying(pool) as copies:
        for _ in range(3):
            for stage in stage_together(texts, 2):
                stage.commit()
            forks.append(texts[0].fork())
        assert list(copies.values()) == [2] and pool.counters().copies == 2
    texts[0].stage(1).discard()
    assert list(copies.values()) == [2] and pool.counters().copies == 3
