"""`streamgen plan` says what the real pipelines then hold, to the byte."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from streamgen.cli.rehearsal import encoder_weights
from streamgen.kv.arena import Arena
from streamgen.models.lm import load_language_model
from streamgen.models.loading import load_text_encoder
from streamgen.pipelines.image import ImagePipeline
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.video import VideoPipeline
from streamgen.pipelines.videoqa import VideoQAPipeline
from streamgen.pipelines.videoqa_memory import named
from streamgen.pipelines.world import WorldPipeline
from tests.cli.conftest import Command
from tests.models import tiny
from tests.models.doc_lora_models import language_model
from tests.pipelines import image_models, videoqa_models, worlds

Plans = Callable[..., dict[str, Any]]


@pytest.fixture
def planned(command: Command) -> Plans:
    """The plan as JSON."""

    def run(*arguments: object) -> dict[str, Any]:
        done = command("plan", *map(str, arguments), "--json")
        assert done.code == 0, done.said
        return json.loads(done.out)

    return run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    tiny.folder(root / "video")
    worlds.folder(root / "world")
    language_model("gemma2").save_pretrained(root / "gemma2")
    language_model("qwen3").save_pretrained(root / "qwen3")
    return {path.name: path for path in root.iterdir()}


def share(plan: dict[str, Any], *names: str) -> int:
    return sum(plan["memory"][name]["bytes"] for name in names)


@pytest.mark.parametrize("seconds", [None, 2.0])
@pytest.mark.parametrize("streams", [1, 2])
def test_a_video_holds_what_was_planned(
    planned: Plans, folders: dict[str, Path], seconds: float | None, streams: int
) -> None:
    length = () if seconds is None else ("--seconds", seconds)
    plan = planned(folders["video"], "--sequences", streams, *length)
    arena = Arena()
    pipe = VideoPipeline.from_pretrained(folders["video"], memory=arena)
    running = [pipe.stream("a hero walks", seconds=seconds) for _ in range(streams)]
    for stream in running:
        next(stream)
    assert plan["cache"]["bytes"] == arena.held
    parts = {
        "transformer": pipe.transformer,
        "vae": pipe.parts.vae.vae,
        "text_encoder": pipe.parts.text.encoder,
    }
    for name, model in parts.items():
        assert share(plan, f"{name} weights") == sum(weight.nbytes for weight in model.parameters())
    for stream in running:
        stream.close()


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("weights", ["there", "missing"])
def test_the_weights_are_those_that_are_loaded_whether_they_are_there_or_not(
    planned: Plans, folders: dict[str, Path], tmp_path: Path, dtype: str, weights: str
) -> None:
    folder = Path(shutil.copytree(folders["video"], tmp_path / "video"))
    if weights == "missing":
        for path in folder.rglob("*.safetensors"):
            path.unlink()
    plan = planned(folder, "--dtype", dtype)
    loaded = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    pipe = VideoPipeline.from_pretrained(folders["video"], dtype=loaded)
    assert share(plan, "transformer weights") == sum(one.nbytes for one in pipe.transformer.parameters())
    assert share(plan, "vae weights") == sum(one.nbytes for one in pipe.parts.vae.vae.parameters())
    encoder = sum(one.nbytes for one in pipe.parts.text.encoder.parameters())
    assert share(plan, "text_encoder weights") == encoder > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_text_encoder_is_cast_as_loading_casts_it(folders: dict[str, Path], dtype: torch.dtype) -> None:
    loaded = load_text_encoder(folders["video"] / "text_encoder", dtype)
    share = encoder_weights(folders["video"] / "text_encoder", dtype)
    assert share.nbytes == sum(one.nbytes for one in loaded.parameters())


def test_the_decoder_and_the_text_of_a_video_are_planned(planned: Plans, folders: dict[str, Path]) -> None:
    plan = planned(folders["video"])
    pipe = VideoPipeline.from_pretrained(folders["video"])
    with pipe.open(pipe.request("a hero walks")) as session:
        for _ in range(3):
            session.step()
        kept = session.text.nbytes
        assert share(plan, "decoder") == session.vae_state.nbytes
        assert share(plan, "text") == kept


@pytest.mark.parametrize("sessions", [1, 3])
def test_worlds_hold_what_was_planned(planned: Plans, folders: dict[str, Path], sessions: int) -> None:
    plan = planned(folders["world"], "--sequences", sessions, "--window", 2, "--sink", 1)
    arena = Arena()
    pipe = WorldPipeline.from_pretrained(folders["world"], memory=arena)
    started = [pipe.start(worlds.PROMPT, window=2, sink=1) for _ in range(sessions)]
    for session in started:
        session.step({"KeyW"})
        session.step({"KeyD"})
        session.undo()
    assert plan["cache"]["bytes"] == arena.held
    for session in started:
        session.close()


@pytest.mark.parametrize("pictures", [1, 3])
def test_pictures_hold_what_was_planned(planned: Plans, tmp_path: Path, pictures: int) -> None:
    image_models.write_checkpoint(tmp_path / "image")
    plan = planned(tmp_path / "image", "--sequences", pictures)
    arena = Arena()
    pipe = ImagePipeline.from_pretrained(tmp_path / "image", memory=arena)
    held = [arena.held for _ in pipe.stream([1] * pictures)]
    assert plan["cache"]["bytes"] == max(held) and plan["pipeline"] == "image"
    weights = [sum(weight.nbytes for weight in model.parameters()) for model in (pipe.model, pipe.vae)]
    assert share(plan, "transformer weights", "vae weights") >= sum(weights)


@pytest.mark.parametrize("family", ["llava", "qwen3_vl"])
@pytest.mark.parametrize("sessions", [1, 2])
def test_sessions_that_watch_hold_what_was_planned(
    planned: Plans, tmp_path: Path, family: str, sessions: int
) -> None:
    if family == "llava":
        folder = videoqa_models.checkpoint(tmp_path / "watching")
    else:
        folder = videoqa_models.qwen_checkpoint(tmp_path / "watching", family)
    plan = planned(folder, "--tokens", 48, "--sequences", sessions)
    arena = Arena()
    pipe = VideoQAPipeline.from_pretrained(folder, memory=named("hermes", 48), arena=arena)
    opened = [pipe.open() for _ in range(sessions)]
    for session in opened:
        assert list(session.watch(videoqa_models.frames(8)))
        assert plan["cache"]["bytes"] == arena.held
    for session in opened:
        session.close()
    parameters = {id(weight): weight.nbytes for weight in pipe.parts.vlm.model.parameters()}
    assert share(plan, "weights") == sum(parameters.values())


@pytest.mark.parametrize("family", ["gemma2", "qwen3"])
@pytest.mark.parametrize("texts", [1, 4])
@pytest.mark.parametrize(("tokens", "shared"), [(7, 0), (40, 0), (40, 21), (61, 32)])
def test_texts_hold_what_was_planned_and_none_of_them_waits(
    planned: Plans, folders: dict[str, Path], family: str, texts: int, tokens: int, shared: int
) -> None:
    sizes = ("--tokens", tokens, "--shared", shared, "--page-size", 4, "--chunk", 8)
    plan = planned(folders[family], "--sequences", texts, *sizes)
    model = load_language_model(folders[family], torch.float32)
    assert share(plan, "weights") == sum(weight.nbytes for weight in model.model.parameters())
    arena = Arena()
    room = plan_room(plan)
    with TextPipeline(model, memory=arena, **room) as pipe:
        assert plan["cache"]["bytes"] == arena.held
        new = min(5, tokens - 1)
        prompts = [
            [5] * shared + [(7 * text + place) % 59 for place in range(tokens - new - shared)] or [5]
            for text in range(texts)
        ]
        chunks = list(pipe.stream(prompts, max_tokens=new, ignore_stop=True))
        assert sum(len(chunk.tokens) for chunk in chunks) == texts * new
        assert pipe.counters.parked == 0
        if shared == 0:  # who shares a beginning waits until it has been read once
            assert pipe.counters.passes < 2 * new  # one after the other would be texts * (new - 1)


def plan_room(plan: dict[str, Any]) -> dict[str, int]:
    """The arguments that the plan names."""
    (how,) = {
        entry["how"].partition("TextPipeline(")[2]
        for name, entry in plan["memory"].items()
        if "cache" in name
    }
    return {name: int(value) for name, value in (pair.split("=") for pair in how.rstrip(")").split(", "))}


def test_a_config_alone_is_enough_and_key_heads_can_be_fewer(
    planned: Plans, folders: dict[str, Path]
) -> None:
    whole = planned(folders["qwen3"], "--tokens", 64)
    assert planned(folders["qwen3"] / "config.json", "--tokens", 64)["memory"] == whole["memory"]
    pooled = planned(folders["qwen3"], "--tokens", 64, "--gqa", 1)
    assert whole["cache"]["bytes"] == 4 * pooled["cache"]["bytes"]
    assert whole["formula"]["bytes"] == 4 * pooled["formula"]["bytes"]
    assert share(pooled, "weights") < share(whole, "weights")


def test_windows_hold_less_than_the_formula_says(planned: Plans, folders: dict[str, Path]) -> None:
    plan = planned(folders["gemma2"], "--tokens", 128, "--chunk", 8, "--page-size", 4)
    assert plan["windows"] == [8] and plan["cache"]["bytes"] < plan["formula"]["bytes"]


def test_a_shared_beginning_is_held_once(planned: Plans, folders: dict[str, Path]) -> None:
    sizes = ("--tokens", 64, "--sequences", 10, "--page-size", 4)
    apart, together = (
        planned(folders["qwen3"], *sizes, "--shared", shared)["cache"]["bytes"] for shared in (0, 32)
    )
    page = 4 * 2 * 3 * 4 * 8 * 4
    assert apart - together == 9 * 8 * page


@pytest.mark.parametrize("kind", ["qwen3", "gemma2", "video", "world"])
def test_the_most_that_fits_fits_and_one_more_does_not(
    planned: Plans, folders: dict[str, Path], kind: str
) -> None:
    alone = planned(folders[kind])["total"]["bytes"]
    plan = planned(folders[kind], "--memory", 3 * alone)
    most = plan["most_sequences"]
    assert plan["fits"] and most >= 3
    assert planned(folders[kind], "--memory", 3 * alone, "--sequences", most)["fits"]
    assert not planned(folders[kind], "--memory", 3 * alone, "--sequences", most + 1)["fits"]
    assert not planned(folders[kind], "--memory", alone - 1)["fits"]
    assert planned(folders[kind], "--memory", 0)["most_sequences"] == 0


def test_the_longest_text_that_fits_is_said(planned: Plans, folders: dict[str, Path]) -> None:
    budget = planned(folders["qwen3"], "--tokens", 48)["total"]["bytes"]
    most = planned(folders["qwen3"], "--tokens", 10, "--chunk", 10, "--memory", budget)["most_tokens"]
    assert planned(folders["qwen3"], "--tokens", most, "--memory", budget)["fits"]
    assert not planned(folders["qwen3"], "--tokens", most + 1, "--memory", budget)["fits"]


def test_bfloat16_halves_everything_of_a_text(planned: Plans, folders: dict[str, Path]) -> None:
    full, half = (planned(folders["qwen3"], "--tokens", 64, "--dtype", dtype) for dtype in ("fp32", "bf16"))
    assert full["total"]["bytes"] == 2 * half["total"]["bytes"]


def test_people_get_a_line_for_each_share_and_a_verdict(command: Command, folders: dict[str, Path]) -> None:
    done = command("plan", str(folders["qwen3"]), "--tokens", "64", "--memory", "1KiB")
    lines = done.out.decode().splitlines()
    assert done.code == 0 and [line.split("\t")[0] for line in lines] == [
        "what",
        "weights",
        "cache",
        "total",
        "by formula",
        "memory",
    ]
    assert "too much" in lines[-1] and "at most 0 sequences fit" in lines[-1]


def test_wrong_wishes_are_one_sentence(command: Command, folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "streamgen.json").write_text('{"pipeline": "songs"}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "seeing").mkdir()
    (tmp_path / "seeing" / "config.json").write_text('{"model_type": "llava_onevision"}')
    for arguments, sentence in [
        ((str(folders["video"]), "--tokens", "5"), "--tokens says nothing of a model of kind 'video'"),
        ((str(folders["qwen3"]), "--seconds", "5"), "--seconds says nothing of a model of kind 'text'"),
        ((str(folders["qwen3"]), "--tokens", "129"), "more than the 128 that this model was made for"),
        ((str(folders["qwen3"]), "--tokens", "9", "--shared", "10"), "more than the 9 tokens of a text"),
        ((str(folders["qwen3"]), "--sequences", "0"), "--sequences 0 is out of range"),
        ((str(folders["qwen3"]), "--gqa", "3"), "choose one of 1, 2, 4"),
        ((str(folders["qwen3"]), "--memory", "much"), "'much' is not a size"),
        (
            ("seeing/config.json",),
            "no plain language model: the model_type of its config.json is llava_onevision",
        ),
        (("other",), "is for the pipeline 'songs'"),
        (("empty",), "is no checkpoint"),
        (("nothing-of-this-name",), "neither a folder nor a known checkpoint"),
    ]:
        done = command("plan", *arguments)
        assert done.code == 2 and sentence in done.said and done.said.count("\n") == 1, (arguments, done.said)
