"""When a session ends: by its job's environment, and then by what the hub says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from portal.session_usage.end_time import OF_JOB, EndTime
from spawners import callback

END = datetime(2026, 11, 25, 14, 5, tzinfo=UTC)
AT = int(END.timestamp())


def test_the_end_is_what_the_job_was_started_with() -> None:
    assert EndTime({OF_JOB: "1700000000"}).at == 1700000000


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5e9", "١٢"])
def test_what_is_no_number_is_no_end(text: str) -> None:
    assert EndTime({OF_JOB: text}).at is None
    assert EndTime({}).at is None


def test_the_hub_knows_better_for_an_administrator_may_have_changed_it() -> None:
    end = EndTime({OF_JOB: "1700000000"})

    end.hear("1700003600")
    end.hear("")
    end.hear("soon")

    assert end.at == 1700003600


def test_the_hub_says_the_end_of_a_session_that_runs() -> None:
    assert callback.end_of({"ends_at": END.isoformat(), "node": "gpu01"}) == str(AT)


@pytest.mark.parametrize("facts", [None, {}, {"node": "gpu01"}, {"ends_at": None}])
def test_the_hub_says_nothing_where_it_does_not_know(facts: object) -> None:
    assert callback.end_of(facts) == ""
