"""`bench text`: the rivals write the same tokens."""

import json

import pytest

from apps.bench.text import run


def test_the_rivals_agree_on_every_token_and_the_report_names_its_parts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    about = run(json_output=True, size="tiny", rounds=1, part="speed")
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(about))
    assert about["tokens_that_agree"] == 1.0
    names = [(one["name"], one["streams"]) for one in about["timings"]]
    rivals = [
        f"{cache}, {way}" for cache in ("DynamicCache", "StaticCache") for way in ("bare loop", "generate")
    ]
    sides = (*rivals, "streamgen", "streamgen, drafted")
    assert names == [(name, streams) for streams in (1, 3) for name in sides]
    assert about["timings"][-1]["acceptance"] > 0.5
    waits = about["waiting"]
    assert waits["tokens"] == 3 * 6 and waits["cache_bytes"] < waits["cache_bytes_unshared"]
    assert waits["first_token_s"]["p50"] <= waits["first_token_s"]["p99"] <= waits["latency_s"]["p99"]
