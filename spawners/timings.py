"""The times of a session's life on the hub's side, in seconds, each with its reason.

Those of Slurm's answers are in portal/slurm (cluster, watched_job); those of the watch are settings of the hub
(portal/hub/app.py).
"""

from __future__ import annotations

from datetime import timedelta

# How often Slurm's snapshot is taken anew for a session that starts. It is shared by all sessions.
LIVELY_EVERY_S = 1.0  # after something has happened to the job: a person is watching the page
WAITING_EVERY_S = 12.0  # while it only waits; its server itself announces that it runs
LIVELY_FOR_S = 20.0  # how long "something has happened" lasts: most starts are over by then
NODE_EVERY_S = 0.25  # while the port is known and Slurm's snapshot does not show the node yet
NODE_MAX_AGE_S = 0.2  # of the snapshot in that moment

FOLLOWED_AT_ONCE = 8  # pages of one start that are told what happens; the oldest gives way to a newer one

# The end of a session.
POLL_MAX_AGE_S = 30.0  # the hub watches all sessions together every 12 s; one session's poll takes what is there
ENDING_EVERY_S = 1.0  # after the server has announced its end: Slurm hears of it a moment later
ENDING_QUERIES = 10  # then the hub's watch finds it
STOP_WITHIN_S = 30.0  # a stop waits as long for Slurm to say that the job is gone; then it goes on without

NAMES_MAX_AGE_S = 300.0  # of the nodes' names, for a certificate: a cluster seldom gets a node
NAME_EVERY_S = 5.0  # a node whose name cannot be resolved: somebody may be repairing that
SILENT_AFTER_S = 330.0  # a server says every two minutes where it listens (portal/singleuser/server.py)

# Whoever waits for an answer gives up before these.
FIRST_ANSWER_S = 86_400
START_TIMEOUT_S = 10**8  # Slurm decides how long a job waits; the time on the node is limited by the site

LOCAL_START_S = 120.0  # a local process, which waits in no queue
MAINTENANCE_WITHIN = timedelta(days=7)  # the next maintenance that is worth telling somebody who waits
