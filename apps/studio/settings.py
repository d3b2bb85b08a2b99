"""What a studio is started with."""

from dataclasses import dataclass, field
from pathlib import Path

from streamgen.errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MIB = 2**20


@dataclass(frozen=True)
class StudioSettings:
    """Address, limits, and the model of each tab: a bundled name, a folder or a hub id that was pulled."""

    host: str = "127.0.0.1"
    port: int = 7860
    token: str | None = None  # asked of every request where it is given
    sessions: int = 8  # that may be open at once
    upload: int = 64 * MIB  # bytes that one request may bring
    memory: str | None = None  # budget of all caches together, such as 4GiB; None = no limit
    device: str | None = None  # None = a GPU where there is one
    models: dict[str, str] = field(
        default_factory=lambda: {
            "world": "tiny-world",
            "video": "tiny-video",
            "image": "tiny-var",
            "ask": "tiny-vlm",
            "text": "tiny-lm",
        }
    )

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"There is no port {self.port}; give one from 1 to 65535, or 0 for a free one.")
        if self.sessions < 1 or self.upload < 1:
            raise UsageError(
                f"{self.sessions} sessions and uploads of {self.upload} bytes serve nobody; give at least 1."
            )
        if self.token is not None and len(self.token) < 8:
            raise UsageError(f"A token of {len(self.token)} characters is guessed at once; give at least 8.")

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can reach it without a token."""
        return self.host not in LOOPBACK and self.token is None

    @property
    def static(self) -> Path:
        """The folder of pages, scripts and styles."""
        return Path(__file__).parent / "static"
