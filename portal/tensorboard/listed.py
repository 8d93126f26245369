"""The TensorBoards of a session: ``dsportal/api/tensorboards`` lists those that run, and stops them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tornado.web import authenticated

from portal.session_pages.calls import SessionCall
from portal.tensorboard.boards import Board, Boards

NONE_SUCH = "This session has no such TensorBoard."


class BoardsHandler(SessionCall):
    """``GET dsportal/api/tensorboards``."""

    def initialize(self, boards: Boards, home: Path) -> None:
        """Take the boards of this session; a look at them is no activity of the person."""
        self.boards = boards
        self.home = home
        self._track_activity = False

    @authenticated
    def get(self) -> None:
        """Those that run, the newest first."""
        running = sorted((one for one in self.boards if one.running), key=lambda one: -(one.started_at or 0))
        self.finish(json.dumps({"tensorboards": [shown(one, self.home) for one in running]}))


class OwnBoardHandler(SessionCall):
    """``DELETE dsportal/api/tensorboards/ID``."""

    def initialize(self, boards: Boards, home: Path) -> None:
        """Take the boards of this session."""
        self.boards = boards

    @authenticated
    async def delete(self, board_id: str) -> None:
        """Stop it: a page of it that is still open does not start it again, opening it does."""
        if not await self.boards.stop(board_id):
            self.set_status(404)
            self.finish(json.dumps({"message": NONE_SUCH}))
            return
        self.set_status(204)
        self.finish()


def shown(board: Board, home: Path) -> Mapping[str, Any]:
    """A board as JSON: its folder as the person knows it, since when it runs (seconds since 1970), its address."""
    real = home.resolve()
    is_below = board.folder.is_relative_to(real)
    return {
        "id": board.id,
        "folder": str(board.folder.relative_to(real) if is_below else board.folder),
        "since": board.started_at,
        "path": f"tensorboard/{board.id}/",
    }
