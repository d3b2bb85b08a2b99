"""The page: Gradio's tabs around elements of our own, which draw and listen without a round trip."""

import gradio as gr
from fastapi import FastAPI
from starlette.applications import Starlette

from .settings import StudioSettings

HEAD = """
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/studio/studio.css">
<script type="module" src="/studio/studio.js"></script>
"""
FONTS = ("system-ui", "sans-serif")
MONO = ("ui-monospace", "monospace")
TABS = (
    ("World", "world", '<studio-world tab="world"></studio-world>'),
    ("Video", "video", '<studio-world tab="video"></studio-world>'),
    ("Image", "image", "<studio-image></studio-image>"),
    ("Ask", "ask", "<studio-ask></studio-ask>"),
    ("Text", "text", "<studio-text></studio-text>"),
    ("Replay", "replay", "<studio-replay></studio-replay>"),
    ("Memory & kernels", "memory", "<studio-memory></studio-memory>"),
)
_OWN = {"js_on_load": None, "apply_default_css": False}  # the elements bring scripts and styles of their own


def page(settings: StudioSettings) -> Starlette:
    """The whole page as an application, to be mounted at /."""
    with gr.Blocks(title="streamgen studio", analytics_enabled=False, fill_width=True) as blocks:
        gr.HTML("<studio-head></studio-head>", **_OWN)
        with gr.Tabs():
            for label, name, element in TABS:
                with gr.Tab(label, id=name, render_children=True):
                    gr.HTML(element, **_OWN)
    return gr.mount_gradio_app(
        FastAPI(),
        blocks,
        path="/",
        theme=gr.themes.Default(font=FONTS, font_mono=MONO),  # no font is fetched from anywhere
        head=HEAD,
        footer_links=[],
        ssr_mode=False,
        max_file_size=settings.upload,
        mcp_server=False,
        pwa=False,
    )
