"""`streamgen ask` over a tiny random model: what is asked when, of what, and what is refused."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from streamgen.cli import ask_request
from streamgen.frames import read
from streamgen.pipelines.videoqa import VideoQAPipeline
from streamgen.pipelines.videoqa_memory import NAMES
from tests.cli.conftest import Command, Done
from tests.frames import clips
from tests.pipelines.videoqa_models import checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(checkpoint(tmp_path_factory.mktemp("vlm")))


@pytest.fixture
def clip(tmp_path: Path) -> str:
    """Six seconds of ten frames each."""
    return str(clips.write(tmp_path / "clip.mp4", clips.numbered(60), options={"movflags": "faststart"}))


def records(done: Done) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_the_answer_is_that_of_the_library(command: Command, model: str, clip: str) -> None:
    done = command("ask", clip, "who came in?", "-m", model)
    with VideoQAPipeline.from_pretrained(model).open() as session:
        for _ in session.watch(clip):
            pass
        expected = "".join(session.ask("who came in?"))
    assert (done.code, done.out.decode()) == (0, f"{expected}\n")
    assert "0:05.5: who came in?" in done.said


def test_a_question_sees_what_is_shown_up_to_its_time_and_no_more(
    command: Command, model: str, clip: str
) -> None:
    done = command("ask", clip, "what?", "-m", model, "--at", "3", "--at", "0:01", "--at", "6", "--jsonl")
    assert done.code == 0, done.said
    told = records(done)
    assert [(record["at_s"], record["seen_s"], record["frames"]) for record in told] == [
        (1, 1.0, 3),
        (3, 3.0, 7),
        (6, 5.5, 12),
    ]
    with VideoQAPipeline.from_pretrained(model).open() as session:
        frames = [(frame.picture, frame.time) for frame in read(clip, fps=2)]
        answers = []
        for first, last in ((0, 3), (3, 7), (7, 12)):
            for picture, seconds in frames[first:last]:
                session.push(picture, seconds)
            session.flush()
            answers.append("".join(session.ask("what?")))
    assert [record["answer"] for record in told] == answers


def test_json_lines_say_what_answered_and_nothing_else_is_on_stdout(
    command: Command, model: str, clip: str
) -> None:
    options = ["--memory", "window", "--budget", "40", "--fps", "4", "--no-steer", "--jsonl"]
    done = command("ask", "-i", clip, "one?", "two?", "-m", model, *options)
    assert done.code == 0, done.said
    one, two = records(done)
    assert (one["question"], two["question"]) == ("one?", "two?")
    settled = {"memory": "window", "budget": 40, "fps": 4, "steer": False, "model": model, "frames": 24}
    assert {name: one[name] for name in settled} == settled
    assert one["tokens"] <= 40 + 32 and one["bytes"] > 0 and one["evictions"] > 0
    assert 0 < one["first_token_s"] <= one["answer_s"]


@pytest.mark.parametrize("memory", NAMES)
def test_every_memory_answers_and_its_chunks_can_be_counted(
    memory: str, command: Command, model: str, clip: str, tmp_path: Path
) -> None:
    done = command("ask", clip, "what?", "-m", model, "--memory", memory, "--stats", "chunks.jsonl", "-q")
    assert done.code == 0 and done.out.endswith(b"\n") and done.said == ""
    lines = [json.loads(line) for line in (tmp_path / "chunks.jsonl").read_text().splitlines()]
    assert [line["chunk"] for line in lines] == list(range(len(lines))) and len(lines) >= 3
    assert any(line["eviction"] for line in lines) == (memory != "full")
    if memory == "hermes":
        logged = next(line["eviction"] for line in lines if line["eviction"])
        assert max(logged["before"]) > max(logged["after"]) and "budget 64" in logged["why"]


def test_the_command_and_the_library_know_the_same_memories() -> None:
    assert ask_request.MEMORIES == NAMES


def test_a_dry_run_prints_tokens_and_bytes(command: Command, model: str, clip: str) -> None:
    done = command("ask", clip, "what?", "-m", model, "--at", "2", "--dry-run")
    plan = json.loads(done.out)
    pipeline = VideoQAPipeline.from_pretrained(model)
    assert plan["memory_bytes"]["cache"] == pipeline.bytes()
    assert plan["tokens"] == {"prompt": 11, "video": 64, "chunk": 32, "question": 133}
    assert (plan["duration_s"], plan["questions"]) == (6.0, [{"question": "what?", "at": 2.0}])


def asked_on_stdin(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as player:
        player.write(lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(read_end, "rb")))


def test_questions_that_are_piped_in_wait_for_their_time_or_the_end(
    command: Command, model: str, clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_on_stdin('whole?\n{"question": "early?", "at": 1}\n', monkeypatch)
    done = command("ask", clip, "-m", model, "--jsonl")
    assert done.code == 0, done.said
    assert [(record["question"], record["seen_s"]) for record in records(done)] == [
        ("early?", 1.0),
        ("whole?", 5.5),
    ]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "No question came"),
        ('{"ask": 1}\n', "is not understood"),
        ("{\n", "no JSON"),
        ('{"question": "\\ud800"}\n', "is not UTF-8 text"),
    ],
)
def test_lines_that_are_no_question_are_one_sentence(
    lines: str, words: str, command: Command, model: str, clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_on_stdin(lines, monkeypatch)
    done = command("ask", clip, "-m", model, "-q")
    assert (done.code, done.out) == (2, b"") and words in done.said and done.said.count("\n") == 1


def test_a_damaged_video_is_asked_about_before_it_is_complained_of(
    command: Command, model: str, clip: str
) -> None:
    done = command("ask", str(clips.cut(Path(clip), 0.7)), "what?", "-m", model)
    assert done.code == 1 and done.out.count(b"\n") == 1
    assert "is damaged" in done.said.splitlines()[-1] and "good frames came before that" in done.said
    done = command("ask", str(clips.cut(Path(clip), 0.7)), "what?", "-m", model, "--skip-damage")
    assert done.code == 0 and "damaged places passed over" in done.said


def test_a_full_memory_is_asked_before_it_is_complained_of(command: Command, model: str, clip: str) -> None:
    done = command("ask", clip, "what?", "-m", model, "--memory", "full", "--budget", "40")
    assert done.code == 1 and done.out.count(b"\n") == 1
    assert "The full memory holds 32 of at most 40" in done.said.splitlines()[-1]


def test_a_video_that_ends_before_a_question_is_a_failure_after_the_other_answers(
    command: Command, model: str
) -> None:
    source = "lavfi:testsrc=rate=5:duration=2:size=32x32"  # says no duration
    done = command("ask", source, "what?", "-m", model, "--at", "1", "--at", "3", "--jsonl")
    assert done.code == 1
    assert [record["at_s"] for record in records(done)] == [1.0]
    assert "ended at 0:01.6, before the time of a question: 0:03" in done.said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "A video is missing"),
        (["CLIP", ""], "A question is empty"),
        (["CLIP", "a", "b", "c", "--at", "1", "--at", "2"], "do not pair"),
        (["CLIP", "a", "--at", "soon"], "is no time"),
        (["CLIP", "-", "--at", "1"], "there is none"),
        (["CLIP", "a", "--at", "1", "--start", "2"], "before --start"),
        (["CLIP", "a", "--at", "3", "--end", "2"], "after --end"),
        (["CLIP", "a", "--at", "9"], "past the end of the video, which lasts 0:06"),
        (["CLIP", "a", "--start", "9"], "past the end of the video"),
        (["CLIP", "a", "--fps", "0"], "more than 0"),
        (["CLIP", "a", "--memory", "endless"], "choose one of hermes, window, uniform, full"),
        (["CLIP", "a", "--budget", "0"], "--budget 0"),
        (["CLIP", "a", "--most", "0"], "--most 0"),
        (["CLIP", "a", "--timeout", "0"], "more than 0"),
        (["CLIP", "a", "--dtype", "fp8"], "choose fp32 or bf16"),
        (["CLIP", "a", "--device", "tpu"], "choose cpu"),
        (["CLIP", "a", "--attention", "guess"], "There is no kernel 'guess'"),
        (["CLIP", "a", "--stats", "no/such/place"], "cannot be written"),
        (["CLIP", "a", "-m", "tiny-nothing"], "neither a folder nor a known checkpoint"),
        (["missing.mp4", "a"], "there is no such file"),
        (["cam:97", "a"], "There is no camera"),
        (["-"], "questions have to be given in words"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_before_a_weight_is_loaded(
    arguments: list[str],
    words: str,
    command: Command,
    model: str,
    clip: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*arguments: object, **options: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("streamgen.pipelines.videoqa.load_parts", load)
    named = [] if "-m" in arguments else ["-m", model]
    done = command("ask", *(clip if word == "CLIP" else word for word in arguments), *named)
    assert (done.code, done.out) == (2, b""), done.said
    assert words in done.said and done.said.count("\n") == 1


def test_a_question_longer_than_the_model_allows_is_a_sentence(
    command: Command, model: str, clip: str
) -> None:
    done = command("ask", clip, "what? " * 400, "-m", model)
    assert done.code == 2 and done.out == b"" and "tokens" in done.said.splitlines()[-1]
