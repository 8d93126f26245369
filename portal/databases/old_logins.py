"""The tokens that logins into sessions leave with JupyterHub: so many of one person, and the oldest go first.

Each visit of a browser without its session's cookie makes one (OAuth), which is good for a day; a program could make
more than a database should have.
"""

from __future__ import annotations

from jupyterhub import orm
from sqlalchemy import func
from sqlalchemy.orm import Session

KEPT = 100  # of one person and one session; as many browsers are logged in
OF_THE_HUB = "jupyterhub"  # the client of tokens that no OAuth login made


async def look(db: Session) -> None:
    """Take away what is too many, and the codes of logins that were never finished."""
    token = orm.APIToken
    of_logins = (token.user_id.is_not(None), token.client_id != OF_THE_HUB)
    groups = db.query(token.user_id, token.client_id).filter(*of_logins).group_by(token.user_id, token.client_id)
    for person, client in groups.having(func.count(token.id) > KEPT).all():
        theirs = db.query(token).filter(token.user_id == person, token.client_id == client)
        oldest_kept = theirs.order_by(token.id.desc()).offset(KEPT - 1).first()
        if oldest_kept:
            theirs.filter(token.id < oldest_kept.id).delete(synchronize_session=False)  # in one step, however many
    db.query(orm.OAuthCode).filter(orm.OAuthCode.expires_at < orm.OAuthCode.now()).delete(synchronize_session=False)
    db.commit()
