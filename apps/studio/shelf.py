"""The models of a studio, loaded one after another behind the page, and what the page may know of them."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamgen as sg
from streamgen.cli import backend

# A video checkpoint is a world without actions, and a world's prompt can be changed while it runs.
KINDS = {
    "world": "WorldPipeline",
    "video": "WorldPipeline",
    "image": "ImagePipeline",
    "ask": "VideoQAPipeline",
    "text": "TextPipeline",
}


@dataclass
class Slot:
    """One tab's model: waiting, loading, ready or failed."""

    tab: str
    name: str
    state: str = "waiting"
    seconds: float = 0.0  # that loading took
    trouble: str = ""  # why it failed, as a sentence
    pipeline: Any = None

    def record(self) -> dict[str, Any]:
        """For the page."""
        return {
            "tab": self.tab,
            "model": self.name,
            "state": self.state,
            "seconds": round(self.seconds, 1),
            "trouble": self.trouble,
        }


class Shelf:
    """Loads in a thread of its own; a model that fails says why, and the others go on."""

    def __init__(self, models: dict[str, str], memory: str | None = None, device: str | None = None) -> None:
        self.slots = {tab: Slot(tab, models[tab]) for tab in KINDS if tab in models}
        self.arena: Any = None  # of all caches, once torch is there
        self._memory = memory
        self._device = device
        self._listeners: list[Callable[[], None]] = []

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call this whenever a model changed its state, from the thread that loads."""
        self._listeners.append(on_change)

    def forget(self, on_change: Callable[[], None]) -> None:
        """Call it no longer."""
        self._listeners.remove(on_change)

    def start(self) -> None:
        threading.Thread(target=self.load, name="studio models", daemon=True).start()

    def load(self) -> None:
        """Load every model that is not there yet."""
        for slot in [slot for slot in self.slots.values() if slot.state == "waiting"]:
            began = time.monotonic()
            self._tell(slot, "loading")
            try:
                slot.pipeline = self._load(slot)
            except Exception as error:
                slot.trouble = sentence(error)
            slot.seconds = time.monotonic() - began
            self._tell(slot, "ready" if slot.pipeline is not None else "failed")

    def record(self) -> list[dict[str, Any]]:
        return [slot.record() for slot in self.slots.values()]

    def _load(self, slot: Slot) -> Any:
        backend.quieten_libraries()
        device = backend.pick_device(self._device)
        if self.arena is None:
            self.arena = sg.CachePool(budget=self._memory, device=device)
        kind = KINDS[slot.tab]
        for other in self.slots.values():
            if other.pipeline is not None and other.name == slot.name and KINDS[other.tab] == kind:
                return other.pipeline
        if slot.tab == "text":
            from .text_model import TextModel

            return TextModel.load(slot.name, device, self.arena)
        pipeline = getattr(sg, kind)
        if slot.tab == "ask":
            return pipeline.from_pretrained(slot.name, device=device, arena=self.arena)
        return pipeline.from_pretrained(slot.name, device=device, memory=self.arena)

    def _tell(self, slot: Slot, state: str) -> None:
        slot.state = state
        for listener in list(self._listeners):
            listener()


def sentence(error: Exception) -> str:
    """What the page says of an error."""
    words = " ".join(str(error).split()) or "no more is known"
    told = words if isinstance(error, sg.StreamgenError) else f"{type(error).__name__}: {words}"
    return told if told.endswith((".", "!", "?")) else f"{told}."
