"""The recipe of `tiny-vlm` asks what the simulator shows, and packs questions without changing answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from weights.recipes.tiny_vlm.model import PER_FRAME, embed, hidden, look, model
from weights.recipes.tiny_vlm.pack import Packer, Plan
from weights.recipes.tiny_vlm.questions import WORDINGS, Quiz
from weights.recipes.tiny_vlm.story import Story, draw, draw_fast, story
from weights.recipes.tiny_vlm.text import END, SYSTEM, VIDEO, guidance, tokenizer
from weights.recipes.tiny_vlm.things import NAMES
from weights.recipes.world import judge
from weights.recipes.world.scene import HERO_LEFT, HERO_TOP
from weights.recipes.world.sprites import thing


def clear_day(seed: int, frames: int = 6) -> Story:
    """A walk on which every pixel can be read."""
    tale = story(frames, np.random.default_rng(seed), seed=seed + 1000)
    return replace(tale, looks=[replace(look, time="day", weather="clear") for look in tale.looks])


def stands(frame: NDArray[np.uint8], picture: NDArray[np.float64], drawn: NDArray[np.bool_]) -> bool:
    """Whether these pixels are somewhere in the frame, not behind the hero."""
    height, width = drawn.shape
    views = np.lib.stride_tricks.sliding_window_view(frame, (height, width), axis=(0, 1))
    same = (np.moveaxis(views, 2, -1)[:, :, drawn] == picture[drawn]).all((-2, -1))
    same[HERO_TOP - height + 1 : HERO_TOP + 14, HERO_LEFT - width + 1 : HERO_LEFT + 12] = False
    return bool(same.any())


@pytest.mark.parametrize("seed", range(4))
def test_a_thing_counts_as_seen_exactly_where_its_pixels_are(seed: int) -> None:
    tale = clear_day(seed)
    full, _ = tale.seen()
    for frame, place, names in zip(draw(tale), tale.looks, full, strict=True):
        for kind, of in NAMES.items():
            assert (of[place.biome] in names) == stands(frame, *thing(kind, place.biome))


def test_ground_that_is_drawn_once_shows_what_the_simulator_draws() -> None:
    """Only the feet differ, which step as they like."""
    rng = np.random.default_rng(3)
    tale = story(12, rng)
    tale = replace(tale, looks=[replace(look, weather="clear") for look in tale.looks])
    near = np.abs(draw(tale).astype(int) - draw_fast(tale, rng)).max(-1)
    near[:, HERO_TOP + 10 : HERO_TOP + 14, HERO_LEFT : HERO_LEFT + 12] = 0
    assert near.max() <= 1


def test_answers_are_what_the_pixels_show() -> None:
    tale = clear_day(5, frames=12)
    frames, quiz, rng = draw(tale), Quiz(tale), np.random.default_rng(0)
    biomes = [judge.look(frame)[0] for frame in frames]
    order = [b for t, b in enumerate(biomes) if t == 0 or b != biomes[t - 1]]
    for time in range(len(frames)):
        said = {kind: quiz.ask(kind, time, rng).answer for kind in WORDINGS}
        assert said["where"] == biomes[time]
        assert said["first"] == biomes[0]
        assert said["coat"] == judge.who(frames[time]).coat
        assert said["night"] == "no"
    assert said["before"] == ["none", *order][-2]
    assert said["count"] == ["none", "one", "two", "three", "four"][len(set(order))]


def question_start(ids: list[int], place: int, first: int) -> int:
    """Where the question begins that is answered after `place`: after the end of the answer before it."""
    opening = tokenizer().convert_tokens_to_ids("<|im_start|>")
    while place > first and not (ids[place - 1] == END and ids[place] != opening):
        place -= 1
    return place


def test_packed_questions_get_the_answers_that_each_gets_alone() -> None:
    """One pass over a stream and all its questions equals the stock model on the stream and one question."""
    torch.manual_seed(0)
    words = tokenizer()
    net = model(len(words)).eval()
    data = Packer(words).batch(Plan(2, 5, 90, tuple(WORDINGS)), np.random.default_rng(1))
    start, video = data.start, 5 * PER_FRAME
    with torch.no_grad():
        states = hidden(net, embed(net, data.ids, look(net, data.frames), start), data.positions, data.mask)
        for (number, place), time in zip(data.place.tolist(), data.times.tolist(), strict=True):
            begin = question_start(data.ids[number].tolist(), place, start + video)
            ids = torch.cat(
                [data.ids[number, : start + PER_FRAME * (time + 1)], data.ids[number, begin : place + 1]]
            )[None]
            seen = look(net, data.frames[number : number + 1, : time + 1])
            alone = net(inputs_embeds=embed(net, ids, seen, start)).logits[0, -1]
            packed = net.lm_head(states[number, place])
            torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-4)


def test_every_word_that_is_said_is_known() -> None:
    words = tokenizer()
    texts = [SYSTEM, *(w.format("cactus") for options in WORDINGS.values() for w in options), *guidance()]
    for text in texts:
        assert words.unk_token_id not in words(text)["input_ids"]
    assert words("<video>")["input_ids"] == [VIDEO]
