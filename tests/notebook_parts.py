"""Notebooks that tests are made of, as JSON has them."""

from __future__ import annotations

import base64
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
PICTURE = {"image/png": base64.b64encode(PIXEL).decode()}


def markdown(source: str | list[str], **attachments: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, "attachments": attachments}


def code(source: str, *outputs: Any) -> dict[str, Any]:
    return {
        "cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs), "execution_count": 1,
    }  # fmt: skip


def notebook(*cells: dict[str, Any], **language: Any) -> dict[str, Any]:
    return {
        "nbformat": 4, "nbformat_minor": 4, "metadata": {"language_info": {"name": "python", **language}},
        "cells": list(cells),
    }  # fmt: skip
