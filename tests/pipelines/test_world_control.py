"""Keys, tracks and logs: what a player does, however it is written."""

import io
import json
from pathlib import Path

import pytest

from streamgen.errors import UsageError
from streamgen.pipelines.control import HeldKeys, feed_characters, feed_line, read_lines
from streamgen.pipelines.world_keys import IDLE, Actions, named
from streamgen.pipelines.world_log import ControlLog
from streamgen.pipelines.world_prompt import Switch
from streamgen.pipelines.world_settings import ActionSettings
from streamgen.pipelines.world_track import read_track


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


W, D = Actions(frozenset({"KeyW"})), Actions(frozenset({"KeyD"}))


def test_a_tap_shorter_than_a_chunk_counts_and_mouse_moves_add_up() -> None:
    keys = HeldKeys(Clock())
    keys.press("KeyW")
    keys.release("KeyW")
    keys.move(3, 1)
    keys.move(2, -4)
    actions, _, _ = keys.take()
    assert actions == Actions(frozenset({"KeyW"}), (5, -3))
    assert keys.take()[0] == IDLE


def test_a_held_key_counts_for_every_chunk_until_it_is_let_go() -> None:
    clock = Clock()
    keys = HeldKeys(clock)
    keys.press("KeyW")
    for _ in range(5):
        clock.now += 0.2
        keys.alive()
        assert keys.take()[0] == W
    keys.release("KeyW")
    assert keys.take()[0] == IDLE


def test_silence_lets_go_of_everything() -> None:
    clock = Clock()
    keys = HeldKeys(clock)
    keys.press("KeyW")
    assert keys.take()[0] == W
    clock.now += 0.3
    assert keys.take()[0] == IDLE
    keys.press("KeyD")
    clock.now += 0.3
    assert keys.take()[0] == D  # a tap still counts once


def test_the_time_of_the_first_input_of_a_chunk_is_kept() -> None:
    clock = Clock()
    keys = HeldKeys(clock)
    clock.now = 11.0
    keys.press("KeyW")
    clock.now = 11.2
    keys.press("KeyD")
    assert keys.take()[2] == 11.0
    clock.now = 12.0
    assert keys.take()[2] == 12.0


def test_terminals_and_json_lines_are_understood() -> None:
    keys = HeldKeys(Clock())
    feed_characters(keys, b"w\x1b[A \r\x7f")
    assert keys.take()[0].keys == {"KeyW", "ArrowUp", "Space"}
    keys = HeldKeys(Clock())
    ended: list[object] = []
    lines = b'{"down": "KeyW"}\n\n{"mouse": [1, 2]}\n{"prompt": "rain"}\n{"prompt": "snow"}\n{"up": "KeyW"}\n'
    read_lines(keys, io.BytesIO(lines), ended.append)
    assert keys.take()[:2] == (Actions(frozenset({"KeyW"}), (1, 2)), ["rain", "snow"])
    assert ended == [None]
    with pytest.raises(UsageError, match="There is no key 'KeyÖ'"):
        feed_line(keys, '{"down": "KeyÖ"}')
    with pytest.raises(UsageError, match="down, up, mouse or prompt"):
        feed_line(keys, '{"press": "KeyW"}')
    with pytest.raises(UsageError, match="not a JSON line"):
        feed_line(keys, "w")


def test_a_text_track_is_chunks_of_keys() -> None:
    track = read_track("w*2, d-1,w+space,none, mouse:3:-4*2")
    assert list(track) == [W, W, D, named("w+space"), IDLE, *[Actions(mouse=(3, -4))] * 2]
    assert track.chunks == 7
    held = iter(read_track("d,w*"))
    assert [next(held) for _ in range(4)] == [D, W, W, W]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ä*3", "no key 'ä'"),
        ("w*,d", "nothing can follow"),
        ("w*0", "lasts no chunk"),
        ("", "are empty"),
        ("w+fly", "no key 'fly'"),
        ("mouse:a:b", "mouse:DX:DY"),
        ("w*99999999", "too long"),
        ("gone.json", "cannot be read"),
    ],
)
def test_a_wrong_track_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_track(text)


def test_a_log_keeps_every_event_in_order_and_few_words(tmp_path: Path) -> None:
    rain = Switch.of("rain", None, 1, True)
    slow = Switch.of("snow", None, 4, True)
    events = [W] * 500 + [rain, rain, D, slow] + [Actions(mouse=(1, 2))]
    log = ControlLog({"seed": 3}, events)
    log.save(tmp_path / "log.json")
    again = ControlLog.load(tmp_path / "log.json")
    assert again.events == events and again.start == {"seed": 3}
    assert len(json.loads((tmp_path / "log.json").read_text())["events"]) == 6
    assert list(read_track(str(tmp_path / "log.json"))) == events


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1", "not JSON"),
        ("{}", "no control log"),
        ('{"format": "streamgen-control-1"}', "no list of events"),
        ('{"format": "streamgen-control-1", "events": [{"keys": []}]}', "either actions or a prompt"),
        ('{"format": "streamgen-control-1", "events": [{"actions": ["KeyÄ"]}]}', "no key 'KeyÄ'"),
        ('{"format": "streamgen-control-1", "events": [{"actions": [], "chunks": 0}]}', "at least 1"),
        ('{"format": "streamgen-control-1", "events": [{"actions": [3]}]}', "neither a key code"),
    ],
)
def test_a_broken_log_is_refused_with_a_sentence(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(content)
    with pytest.raises(UsageError, match=words):
        ControlLog.load(tmp_path / "log.json")


def test_actions_become_rows_and_what_is_not_obeyed_is_refused_by_name() -> None:
    keys = (("up", ("KeyW", "ArrowUp")), ("right", ("KeyD",)))
    one = ActionSettings("planes", keys, idle=True, exclusive=True, mouse=0)
    both = ActionSettings("planes", keys, idle=True, exclusive=False, mouse=10)
    held = Actions(frozenset({"ArrowUp", "KeyD"}))
    assert one.row(held) == (0, 1, 0) and one.row(IDLE) == (1, 0, 0)
    assert both.row(held) == (0, 1, 1, 0, 0)
    assert both.row(Actions(mouse=(5, -99))) == (1, 0, 0, 0.5, -1)
    with pytest.raises(UsageError, match="does not obey KeyQ; it obeys ArrowUp, KeyD, KeyW"):
        one.row(Actions(frozenset({"KeyQ"})))
    with pytest.raises(UsageError, match="does not obey the mouse"):
        one.row(Actions(mouse=(1, 0)))
    assert one.obeys(Actions(frozenset({"KeyQ", "KeyD"}), (1, 1))) == D
    with pytest.raises(UsageError, match="write {'KeyW'} instead"):
        Actions.of("KeyW")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("last", 3, True), "renews no memory"),
        (("all", 1, True), "choose one of none, last, window, cut"),
        ((None, 0, True), "no transition"),
        (("last", 1, False), "pin_sink=False belongs to mode='window'"),
    ],
)
def test_a_switch_that_contradicts_itself_is_refused(options, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Switch.of("rain", *options)
