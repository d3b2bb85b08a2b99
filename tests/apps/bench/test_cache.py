"""The cache benchmark runs, says what it includes, and lets no cache answer otherwise than the others."""

import json

import pytest
import torch

from apps.bench import cache as bench
from apps.bench import rivals

TINY = bench.Scale(layers=2, heads=2, head_dim=8, frame=4, window=2, sink=1, passes=2)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_all_caches_are_measured_side_by_side(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    about = bench.run(json_output=True, dtype=dtype, scale=TINY, chunks=2)
    assert json.loads(capsys.readouterr().out) == about
    results = about["results"]
    assert isinstance(results, list) and [one["cache"] for one in results] == list(bench.CACHES)
    assert results[0]["ratio"] == 1 and all(one["chunk_ms"] > 0 < one["cache_ms"] for one in results)
    assert all(one["peak_mib"] >= one["held_mib"] for one in results)


def test_the_table_says_what_is_included(capsys: pytest.CaptureFixture[str]) -> None:
    bench.run(dtype="fp32", scale=TINY, chunks=1)
    out = capsys.readouterr().out
    assert "Included: one chunk" in out and "not the rest of a model" in out
    assert all(name in out for name in bench.CACHES)


def test_a_cache_that_forgets_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals.RollByCopy, "roll", lambda self, memory: memory.zero_())
    with pytest.raises(AssertionError, match="not close"):
        bench.timed("fp32", TINY, 1, bench.sdpa)


def test_a_busy_machine_does_not_stretch_the_time_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert bench.clock().__name__ == "process_time"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert bench.clock().__name__ == "perf_counter"
