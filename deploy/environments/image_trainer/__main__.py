"""Serve the page on a socket, at its path of the portal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gradio as gr
import uvicorn
from fastapi import FastAPI

from .page import page


def main(socket: str, base: str, home: str) -> None:
    """Serve the page until the session ends it."""
    data_sets = os.environ.get("DATASET_PATH", "").split(os.pathsep)
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    app = gr.mount_gradio_app(FastAPI(), page(Path(home), data_sets), "/", root_path=base, theme=theme, footer_links=[])
    uvicorn.run(app, uds=socket, access_log=False)  # its log is about the trainings


if __name__ == "__main__":
    main(*sys.argv[1:])
