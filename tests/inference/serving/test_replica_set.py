"""Replicas of a policy, beside servers that are made up."""

from __future__ import annotations

from typing import Any

from turnwise.inference.serving.limits import TimeLimits
from turnwise.inference.serving.replica_set import ReplicaSet


class Server:
    """A server that answers nothing."""

    address = "here"


async def test_a_refresh_that_is_stopped_before_it_begins_may_begin_again() -> None:
    given = list[str]()

    async def refresh(server: Any) -> None:
        given.append(server.address)

    servers: list[Any] = [Server()]
    replicas = ReplicaSet(servers, max_in_flight=1, limits=TimeLimits(1.0, 1.0), backoff=1.0, version=0)
    replicas.enter_loop()
    replica = replicas.members[0]
    replica.stale = True
    replicas.refresh = refresh
    replicas._refresh_later(replica)
    await replicas.stop_refreshing()  # in the same cycle of the loop, as by a sync of weights
    assert not given
    replicas.refresh = refresh
    replicas._refresh_later(replica)
    assert replica.refreshing is not None, "the server would stay without requests until the next transfer"
    await replica.refreshing
    assert given == ["here"]
