"""Bind the port, say the address, serve until somebody stops it."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from streamgen.errors import UsageError

from .server import application
from .settings import StudioSettings
from .studio import Studio
from .wire import LONGEST


def run(settings: StudioSettings, say: Callable[[str], None]) -> None:
    """Serve a studio; the address is said as soon as the port is ours."""
    with _bound(settings) as port:
        host, number = port.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        token = "" if settings.token is None else f"?token={settings.token}"
        say(f"the studio is at http://{shown}:{number}/{token} (Ctrl-C ends it).")
        if settings.open_to_others:
            say(f"anybody who reaches {host} can play: no --auth token was given.")
        app = application(Studio(settings), _page(settings))
        config = uvicorn.Config(
            app,
            log_level="warning",
            ws="websockets-sansio",
            ws_max_size=4 * LONGEST,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[port])


def _page(settings: StudioSettings) -> Callable[[], Starlette]:
    def build() -> Starlette:
        from .page import page

        return page(settings)

    return build


def _bound(settings: StudioSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    port = socket.socket(family, socket.SOCK_STREAM)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        port.bind((settings.host, settings.port))
        port.listen()  # whoever comes before the server runs waits, and is not refused
    except OSError as error:
        port.close()
        raise UsageError(
            f"The studio cannot listen on {settings.host}:{settings.port}: {error.strerror}. "
            "Give another --port (0 for a free one) or --host."
        ) from error
    return port
