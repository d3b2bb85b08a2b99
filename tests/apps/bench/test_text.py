"""`bench text`: the rivals write the same tokens, and sharing is what the pool says it is."""

import json

import pytest

from apps.bench.text import run
from apps.bench.text_sharing import Trace, measure


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


def test_more_samples_share_more_of_a_prompt_and_copy_one_page_each_and_step_at_most() -> None:
    trace = Trace(requests=4, prompt=60, output=20)
    alone, two, six = (measure(str(count), trace, 4, samples=count, temperature=1.0) for count in (1, 2, 6))
    assert alone.saved == 0 and 0.2 < two.saved < six.saved
    assert alone.most_copies == 0 and two.most_copies <= 1 and six.most_copies <= 1
    assert two.peak_bytes < two.unshared_peak_bytes


def test_more_beams_share_more_and_copy_one_page_each_and_step_at_most() -> None:
    trace = Trace(requests=3, prompt=60, output=20)
    two, four = (measure(str(count), trace, 4, beams=count) for count in (2, 4))
    assert 0.3 < two.saved < four.saved
    assert 0 < two.most_copies <= 1 and 0 < four.most_copies <= 1
    assert min(two.fill, four.fill) > 0.9  # short texts; the default trace keeps 96 %


def test_a_shared_prefix_is_stored_and_computed_once() -> None:
    prefixed = measure("prefix", Trace(requests=4, prompt=16, output=8), 4, prefix=80)
    assert prefixed.peak_bytes < prefixed.unshared_peak_bytes / 2  # four texts, 80 of about 100 tokens
    assert prefixed.saved > 0.3 and prefixed.prompt_tokens_saved > 0.5
    assert prefixed.fill > 0.96
