"""New prompts in a running world: receipts, costs, and what is remembered afterwards."""

import random
import time
from collections import Counter

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.pipelines.world import WorldPipeline
from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_log import ControlLog
from streamgen.pipelines.world_prompt import Mode, Switch
from streamgen.pipelines.world_session import WorldSession
from tests.pipelines.worlds import KEYS, PROMPT, WALK, MakeWorld, play

MANY = (*WALK, *WALK)
OTHER = "sand by night"


def keys_and_values(session: WorldSession) -> list[torch.Tensor]:
    return [part for layer in (0, 1) for part in session.memory.cache.read(layer)]


def passes(pipe: WorldPipeline) -> Counter[str]:
    """How often the transformer runs from now on, with or without its head."""
    ran: Counter[str] = Counter()
    model = pipe.parts.video.model.transformer
    for name in ("patch_embedding", "proj_out"):
        getattr(model, name).register_forward_hook(lambda *_, name=name: ran.update([name]))
    return ran


@pytest.mark.parametrize(
    ("mode", "forwards", "frames"), [("none", 0, 0), ("last", 1, 2), ("window", 1, 6), ("cut", 0, 0)]
)
def test_a_receipt_says_where_the_prompt_took_effect_and_what_it_cost(
    world: MakeWorld, mode: Mode, forwards: int, frames: int
) -> None:
    pipe = world(2, chunk=2, window=4, sink=2)
    with pipe.start(PROMPT) as session:
        play(session)
        ran = passes(pipe)
        receipt = session.set_prompt(OTHER, mode=mode)
        assert ran["patch_embedding"] == receipt.forwards == forwards and ran["proj_out"] == 0
        assert receipt.tokens == frames * 12
        chunk = session.step()
        assert (receipt.chunk, receipt.frame) == (chunk.index, chunk.start) == (6, 23)
        steps = ran["proj_out"]
        assert receipt.forwards <= steps  # never more than a chunk's own passes


@pytest.mark.parametrize("pin_sink", [True, False])
def test_what_is_recached_equals_what_the_kept_latents_give_under_the_new_prompt(
    world: MakeWorld, pin_sink: bool
) -> None:
    pipe = world(window=3, sink=1)
    with pipe.start(PROMPT) as session, pipe.start(PROMPT) as fresh:
        play(session, MANY)
        moment = session.moment
        before = keys_and_values(session)
        session.set_prompt(OTHER, mode="window", pin_sink=pin_sink)
        # A world that never knew the old prompt is given the kept latents in one piece.
        stream = fresh.stream(fresh.memory.cache, moment, moment.acts)
        stream.frame = moment.latent - 4
        text = pipe.parts.video.model.text(pipe.parts.video.text([OTHER]))
        stream.take(moment.recent, text)
        for old, new, expected in zip(before, keys_and_values(session), keys_and_values(fresh), strict=True):
            if not pin_sink:
                torch.testing.assert_close(new, expected, atol=1e-5, rtol=1e-5)
            assert torch.equal(new[:12], old[:12]) == pin_sink
            assert new.abs().sum(dim=(1, 2)).min() > 0


def test_the_last_block_is_computed_again_and_the_rest_is_kept(world: MakeWorld) -> None:
    pipe = world(window=3, sink=1)
    with pipe.start(PROMPT) as session, pipe.start(PROMPT) as fresh:
        play(session, MANY)
        play(fresh, MANY[:-1])
        before, moment = keys_and_values(session), session.moment
        session.set_prompt(OTHER, mode="last")
        text = pipe.parts.video.model.text(pipe.parts.video.text([OTHER]))
        stream = fresh.stream(fresh.memory.cache, fresh.moment, moment.acts[-1:])
        stream.take(moment.recent[:, :, -1:], text)
        for old, new, expected in zip(before, keys_and_values(session), keys_and_values(fresh), strict=True):
            assert torch.equal(new[:-12], old[:-12])
            torch.testing.assert_close(new, expected, atol=1e-5, rtol=1e-5)


def test_modes_differ_and_a_cut_forgets(world: MakeWorld) -> None:
    futures = {}
    pipe = world(2, chunk=2, window=6, sink=2)
    with pipe.start(PROMPT) as trunk:
        play(trunk)
        for mode in ("none", "last", "window", "cut"):
            with trunk.fork() as branch:
                branch.set_prompt(OTHER, mode=mode)  # type: ignore[arg-type]
                futures[mode] = branch.step({"KeyW"}).frames
                remembered = branch.moment.recent.shape[2]
                assert remembered == (2 if mode == "cut" else 8)
        assert len(futures["cut"]) == 3 and len(futures["last"]) == 4  # a codec begins with one frame
        assert not np.array_equal(futures["none"], futures["last"])
        assert not np.array_equal(futures["last"], futures["window"])


def test_a_transition_blends_the_text_chunk_by_chunk_and_renews_no_memory(world: MakeWorld) -> None:
    pipe = world()
    with pipe.start(PROMPT) as session:
        play(session)
        old, new = session.moment.embeds, pipe.parts.video.text([OTHER])
        ran = passes(pipe)
        receipt = session.set_prompt(OTHER, over=4)
        assert (receipt.mode, receipt.forwards, ran["patch_embedding"]) == ("none", 0, 0)
        for done in range(1, 7):
            session.step()
            share = min(done / 4, 1)
            torch.testing.assert_close(session.moment.embeds, old + share * (new - old))
        assert session.moment.transition is None
        assert torch.equal(session.moment.embeds, new)


def test_a_switch_during_a_transition_ends_it_where_it_stands(world: MakeWorld) -> None:
    pipe = world()
    with pipe.start(PROMPT) as session:
        session.set_prompt(OTHER, over=4)
        session.step()
        halfway = session.moment.embeds
        session.set_prompt(PROMPT, over=2)
        session.step()
        home = pipe.parts.video.text([PROMPT])
        torch.testing.assert_close(session.moment.embeds, (halfway + home) / 2)
        session.set_prompt(OTHER)
        assert session.moment.transition is None
        assert torch.equal(session.moment.embeds, pipe.parts.video.text([OTHER]))


def test_a_prompt_that_is_refused_changes_nothing(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        play(session)
        moment, events = session.moment, len(session.log.events)
        with pytest.raises(UsageError, match="fewer words"):
            session.set_prompt("snow " * 20)
        assert session.moment is moment and len(session.log.events) == events and session.receipts == 0


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_seed_and_control_log_give_the_same_frames_again(world: MakeWorld, positions: str) -> None:
    pipe = world(positions=positions, time_scale=2)
    with pipe.start(PROMPT, image=np.full((9, 9, 3), 90, np.uint8), seed=7, window=2, steps=1) as session:
        assert session.opening is not None
        frames = [session.opening.frames, play(session)]
        session.set_prompt(OTHER, mode="window", pin_sink=False)
        frames.append(play(session, WALK[:2]))
        session.step({"KeyS"})
        session.undo()
        session.set_prompt(PROMPT, over=2)
        frames.append(play(session))
        session.set_prompt(OTHER, mode="cut")
        frames.append(play(session, WALK[:2]))
        record = session.log.record()
    assert {
        "prompt",
        "seed",
        "model",
        "steps",
        "window",
        "sink",
        "size",
        "attention",
        "dtype",
    } <= record.keys()
    again = [chunk.frames for chunk in pipe.replay(ControlLog.of(record))]
    assert np.array_equal(np.concatenate(again), np.concatenate(frames))


def painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting without computing."""
    from streamgen.models.wan_vae import StreamingVAE, VaeState
    from streamgen.pipelines.denoise import LatentStream

    def remember(self, frames, replace=0):
        with self.cache.stage(frames * self.frame_tokens, replace=replace) as stage:
            stage.views[0].runs  # noqa: B018
            stage.commit()

    def generate(self, x, fresh, text):
        self._renumber(x.shape[2])
        remember(self, x.shape[2])
        self.frame += x.shape[2]
        return x

    def decode(self, latents, state):
        new = VaeState(state.features, state.frames + latents.shape[2])
        return torch.linspace(-1, 1, 48).view(1, 3, 1, 4, 4), new

    def rewrite(self, latents, text, kept):
        tokens = (latents.shape[2] - kept) * self.frame_tokens
        remember(self, latents.shape[2] - kept, replace=tokens)

    monkeypatch.setattr(LatentStream, "generate", generate)
    monkeypatch.setattr(LatentStream, "rewrite", rewrite)
    monkeypatch.setattr(StreamingVAE, "decode", decode)


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_memory_and_work_are_flat_over_two_thousand_chunks(
    world: MakeWorld, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted(monkeypatch)
    pipe = world(positions=positions)
    with pipe.start(PROMPT) as session:
        marks = []
        for number in range(2000):
            session.step({"KeyW"})
            if number % 500 == 499 or number == 19:
                counters = session.memory.cache.pool.counters()
                held = pipe.parts.video.arena.held
                per_chunk = (counters.used, counters.shared, held, session.moment.recent.numel())
                marks.append((*per_chunk, session.memory.cache.tokens, len(session._past)))
        assert len(set(marks)) == 1
        assert len(session.log.record()["events"]) == 1


def test_a_thousand_prompts_and_actions_each_get_one_receipt_in_order(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted(monkeypatch)
    pipe = world()
    drawn = random.Random(0)
    codes = [code for several in KEYS.values() for code in several]
    asked: list[Actions | Switch] = []
    receipts = []
    with pipe.start(PROMPT) as session:
        for _ in range(1000):
            if drawn.random() < 0.5:
                mode = drawn.choice([None, "none", "last", "window", "cut"])
                over = drawn.choice([1, 1, 3]) if mode in (None, "none") else 1
                text = drawn.choice([PROMPT, OTHER, "snow"])
                receipts.append(session.set_prompt(text, mode, over))
                asked.append(Switch.of(text, mode, over, True))
                assert receipts[-1].chunk == session.moment.index and receipts[-1].prompt == text
            else:
                keys = set(drawn.sample(codes, drawn.randint(0, 2)))
                session.step(keys)
                asked.append(Actions(frozenset(keys)))
        assert [receipt.number for receipt in receipts] == list(range(len(receipts)))
        assert [r.chunk for r in receipts] == sorted(r.chunk for r in receipts)
        assert session.log.events == asked
        session.memory.cache.pool.check()
    assert pipe.parts.video.arena.held == 0


def test_a_chunk_says_how_long_its_input_waited(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        began = time.perf_counter() - 1.0
        timing = session.step({"KeyW"}, at=began).timing
        assert timing["input_to_frame"] > 1.0
        assert timing["input_to_frame"] >= timing["text"] + timing["dit"] + timing["vae"]
