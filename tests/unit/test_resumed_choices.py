"""A session that waits over a restart of the hub keeps what it was asked for, whatever its next start brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

from portal.testing.behaviours import PendingForever
from tests.unit.served_hub import ServedHub, eventually, served_hub
from tests.unit.test_several_sessions import user_of

FIELDS = {"partition": "sxm2", "gpus": "1", "hours": "2"}
ASKED_FOR = {"partition": "sxm2", "gpus": 1, "hours": 2}
OTHER = {"partition": "nosuch", "gpus": 900_000_000, "hours": -7, "memory_gb": 10**15, "whatever": "x"}


async def restarted(hub: ServedHub) -> Any:
    """The spawner of a hub that was killed while the session waited, and is back."""
    user = user_of(hub)
    before = user.spawner
    await eventually(lambda: before.session.state.job_id)
    kept = before.get_state()
    before._spawn_future.cancel()
    await eventually(lambda: not before.pending)
    before.orm_spawner.state, before.orm_spawner.server = kept, None
    hub.hub.db.commit()
    del user.spawners[""]
    assert user.spawner.session.can_resume
    return user.spawner


async def test_a_start_that_takes_a_job_up_brings_no_choices_of_its_own(tmp_path: Path) -> None:
    async with served_hub(tmp_path) as hub:
        hub.hub.proxy.delete_user = AsyncMock()
        alice = await hub.browser("alice")
        hub.slurm.next_job(PendingForever())
        await alice.post("/hub/spawn", data=FIELDS | {"_xsrf": alice.cookies["_xsrf"]})
        spawner = await restarted(hub)
        headers = {"X-XSRFToken": alice.cookies["_xsrf"], "Content-Type": "application/json"}

        answer = await alice.post("/hub/api/users/alice/server", content=json.dumps(OTHER), headers=headers)

        assert answer.status_code == 202
        await eventually(lambda: spawner.session.state.job_id == "1")
        assert [job.id for job, _ in hub.slurm.known()] == ["1"], "no other job"
        assert spawner.user_options == spawner.orm_spawner.user_options == ASKED_FOR
        assert (spawner.session_facts["partition"], spawner.session_facts["gpus"]) == ("sxm2", 1)
