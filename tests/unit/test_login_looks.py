"""AccountLooks that pages do not wait for: each person now and then, one at a time, and none piles up."""

from __future__ import annotations

import asyncio

from portal.login.holders import EVERY_S, WAITING_AT_MOST, AccountLooks


class Service:
    """Answers when it is let go; counts who asks."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.yes = {"alice"}
        self.is_silent = False
        self.goes_on = asyncio.Event()
        self.now = 0.0

    async def __call__(self, name: str) -> bool | None:
        self.asked.append(name)
        await self.goes_on.wait()
        return None if self.is_silent else name in self.yes


async def settle(looks: AccountLooks) -> None:
    await asyncio.gather(*looks._under_way)


async def test_an_answer_counts_when_it_is_there_and_nobody_waits_for_it() -> None:
    service = Service()
    looks = AccountLooks(service, clock=lambda: service.now)

    assert not looks.is_known("alice")
    service.goes_on.set()
    await settle(looks)

    assert looks.is_known("alice")
    assert not looks.is_known("bob")
    assert service.asked == ["alice"]


async def test_somebody_is_looked_at_again_after_a_while_alone() -> None:
    service = Service()
    service.goes_on.set()
    looks = AccountLooks(service, clock=lambda: service.now)
    for service.now in (0, 1, EVERY_S - 1, EVERY_S):
        looks.is_known("alice")
        await settle(looks)
    assert service.asked == ["alice", "alice"]

    service.is_silent = True
    service.now = 2 * EVERY_S
    looks.is_known("alice")
    await settle(looks)
    assert looks.is_known("alice"), "no answer is no other answer"

    service.is_silent = False
    service.yes.clear()
    service.now = 3 * EVERY_S
    assert looks.is_known("alice"), "what was found last"
    await settle(looks)
    assert not looks.is_known("alice")


async def test_a_service_that_hangs_is_asked_about_one_person_and_few_wait() -> None:
    service = Service()
    looks = AccountLooks(service, clock=lambda: service.now)

    for number in range(3 * WAITING_AT_MOST):
        assert not looks.is_known(f"person-{number}")
    await asyncio.sleep(0)

    assert service.asked == ["person-0"]
    assert len(looks._under_way) == WAITING_AT_MOST
    service.goes_on.set()
    await settle(looks)


async def test_who_became_known_in_another_way_is_not_held_to_what_was_found() -> None:
    service = Service()
    service.goes_on.set()
    looks = AccountLooks(service, clock=lambda: service.now)
    looks.is_known("alice")
    await settle(looks)

    looks.forget("alice")

    assert not looks.is_known("alice")
