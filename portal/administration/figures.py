"""What administrators read of the portal in figures: of all people together, and of nobody."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from portal.databases import forecasts_told
from portal.forecasts.compared import ComparedStart, Comparison, compared

log = logging.getLogger(__name__)


def forecast_figures(db: Any) -> Comparison | None:
    """How far off forecasts were; ``None`` where that cannot be read now."""
    try:
        return compared(map(ComparedStart.from_text, forecasts_told.newest(db)))
    except (SQLAlchemyError, ValueError, TypeError) as error:
        log.error("How good forecasts were cannot be read: %s", error)
        return None
