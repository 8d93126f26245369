"""The web socket between a browser and a kernel: it asks no kernel for a debugger where the site does not want them.

A debugger listens on the node, and the first who comes may use it: a neighbour, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from traitlets import Bool

from portal.homes import temporary

ASKS = "debug_request"
GOING_AWAY = 1001  # RFC 6455, 7.4.1
WORDS = (
    "This site's kernels have no debugger: it would listen on the node for everybody there. Where nodes are for one "
    "person alone, the site may allow it (kernels.debugger)."
)


class PortalKernelConnection(ZMQChannelsWebsocketConnection):
    """Answers requests for a debugger itself, with a refusal; all others go to the kernel."""

    debugger = Bool(False, config=True, help="Whether requests for a debugger go to the kernel.")

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        """Hand a message of the browser on to the kernel, unless it is one that nobody may send.

        A kernel that has ended leaves its channels open, which look for its sockets by their names again and again.
        """
        if not temporary.is_held(Path(self.kernel_manager.connection_file)):
            self.websocket_handler.close(GOING_AWAY, temporary.GONE)
            return
        if not self.debugger and _may_ask(_bytes(incoming_msg)):  # rarely; only then it is read
            channel, request = self._read(incoming_msg)
            if (request.get("header") or {}).get("msg_type") == ASKS:
                self._refuse(channel, request)
                return
        super().handle_incoming_message(incoming_msg)

    def _read(self, incoming_msg: Any) -> tuple[str, dict[str, Any]]:
        if self.subprotocol == "v1.kernel.websocket.jupyter.org":
            channel, parts = deserialize_msg_from_ws_v1(incoming_msg)
            names = ("header", "parent_header", "metadata", "content")
            return channel, {name: self.session.unpack(part) for name, part in zip(names, parts, strict=False)}
        is_binary = isinstance(incoming_msg, bytes)
        message = deserialize_binary_message(incoming_msg) if is_binary else json.loads(incoming_msg)
        return message.get("channel") or "shell", message

    def _refuse(self, channel: str, request: dict[str, Any]) -> None:
        asked = request.get("content") or {}
        answer = {"type": "response", "success": False, "message": WORDS, "body": {}}
        numbers = {"command": asked.get("command", ""), "request_seq": asked.get("seq", 0), "seq": 0}
        reply = self.session.msg("debug_reply", content=answer | numbers, parent=request)
        if self.subprotocol == "v1.kernel.websocket.jupyter.org":
            self.write_message(serialize_msg_to_ws_v1(reply, channel, self.session.pack), binary=True)
        else:
            reply["channel"] = channel
            self.write_message(json.dumps(reply, default=str))


def _may_ask(message: bytes) -> bool:
    """Whether the name of the request can be in it: as it is, or with letters that JSON writes by their number."""
    return ASKS.encode() in message or rb"\u" in message


def _bytes(message: Any) -> bytes:
    return message.encode() if isinstance(message, str) else bytes(message)
