"""The Jupyter server extension of a session: TensorBoard, facts for the Lab extension, kernels from modules."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.ioloop import PeriodicCallback
from tornado.routing import PathMatches, Router, Rule
from tornado.web import authenticated

from portal.downloads.kernel_files import ADDRESS, KernelFileHandler
from portal.downloads.pages import ArchiveHandler, Downloads
from portal.downloads.read_back import ReadPlaces
from portal.downloads.read_files import ReadFiles
from portal.environments import routes as environment_routes
from portal.exports import pages as export_routes
from portal.gallery.pages import CatalogueHandler, CopyHandler, Gallery
from portal.gallery.stamp import TEMPLATES
from portal.homes import temporary
from portal.internal_tls.session_files import connect
from portal.jobs import routes as job_routes
from portal.lessons import lesson_gpus
from portal.modules import routes as module_routes
from portal.session_hub.calls import HubCalls
from portal.session_hub.news import News
from portal.session_hub.pages import SessionExtendHandler, SessionNewsHandler
from portal.session_pages import jupyter_faults, strangers
from portal.session_pages.calls import SessionCall
from portal.session_pages.open_answers import LOOK_EVERY_S
from portal.session_settings import KERNELS_PATH, SessionSettings
from portal.session_usage import before_end
from portal.session_usage.end_time import EndTime, end_time
from portal.session_usage.pages import JobUsageHandler, OwnJob, TimeHandler
from portal.singleuser.hub_token import token
from portal.singleuser.logins import OpenSockets, login_of_hub, tokens_of
from portal.singleuser.runtime import hand_on_none
from portal.tensorboard.boards import Boards, id_of
from portal.tensorboard.error_page import NOT_AHEAD, NOT_AHEAD_ADVICE, from_elsewhere, is_ahead, is_own_click, page
from portal.tensorboard.folders import FolderRefused, Folders
from portal.tensorboard.listed import BoardsHandler, OwnBoardHandler
from portal.trials.pages import KernelTrialsHandler, folders_of
from portal.uploads import routes as upload_routes
from portal.webtools import routes as tool_routes

PROVISIONER = "dsportal-module"
REAPER_INTERVAL_S = 60
SOCKET_PATH_MAX = 107  # bytes of sun_path in unix(7), without its end


class OpenHandler(JupyterHandler):
    """``GET tensorboard/open?path=FOLDER``: to the TensorBoard of that folder."""

    def initialize(self, boards: Boards, folders: Folders) -> None:
        """Take the boards of this session and the folders it may show."""
        self.boards = boards
        self.folders = folders

    @authenticated
    def get(self) -> None:
        """Redirect to the board of the folder, or say on a plain page what is wrong with it."""
        if not is_own_click(self.request):
            self.set_status(403)
            self.finish(from_elsewhere(self.request, self.base_url))
            return
        try:
            path = self.get_query_argument("path", "logs", strip=False)
            folder = self.folders.resolve(path)
        except FolderRefused as error:
            self.set_status(error.status)
            self.finish(page(error.fault, error.advice, self.base_url))
            return
        asks_ahead = is_ahead(self.request)
        is_chosen = self.folders.is_chosen(path, folder)
        known = self.boards.ready(id_of(folder, is_chosen=is_chosen)) if asks_ahead else None
        board = known if asks_ahead else self.boards.open(folder, is_chosen=is_chosen)
        if board is None:
            self.set_header("Cache-Control", "no-store")
            self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
            self.finish(page(NOT_AHEAD, NOT_AHEAD_ADVICE, self.base_url))
        else:
            self.redirect(url_path_join(self.base_url, "tensorboard", board.id) + "/")


class SessionFactsHandler(SessionCall):
    """``GET dsportal/api/session``: what the Lab extension needs to know of this session."""

    def initialize(self, settings: SessionSettings) -> None:
        """Take what is known, and do not count a look at it as activity of the person."""
        self.settings_of_session = settings
        self._track_activity = False

    @authenticated
    def get(self) -> None:
        """Title, storage folders, end (seconds since 1970, or null) and the folder of the templates."""
        self.finish(json.dumps(session_facts(self.settings_of_session, end_time)))


class BoardRouter(Router):
    """Brings the proxy's handler in when the first TensorBoard is opened, not when a session starts."""

    SUPPORTED_METHODS = ()  # jupyter_server asks a handler for its methods; BoardHandler authenticates all

    def __init__(self, application: Any, boards: Boards) -> None:
        self.application = application
        self.boards = boards

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        """The handler of one request."""
        from portal.tensorboard.proxy import BoardHandler

        arguments = {"boards": self.boards}
        delegate: HTTPMessageDelegate = self.application.get_handler_delegate(
            request, BoardHandler, target_kwargs=arguments, path_args=kwargs.get("path_args")
        )
        return delegate


def session_facts(settings: SessionSettings, end: EndTime) -> dict[str, Any]:
    """What :class:`SessionFactsHandler` answers."""
    return {
        "title": settings.title,
        "storage": [asdict(folder) for folder in settings.storage],
        "ends_at": end.at,
        "templates": TEMPLATES,
    }


def runtime_folder(jupyter_runtime: str) -> Path:
    """A private place for sockets: in Jupyter's runtime folder, or a new one where that path is too long."""
    folder = Path(jupyter_runtime, "tensorboard")
    longest = len(os.fsencode(folder / f"{'0' * 16}.sock"))
    return folder if longest <= SOCKET_PATH_MAX else temporary.made_until_exit("dsportal-tb-")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "portal.singleuser.extension"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    settings = SessionSettings.from_environment(os.environ)
    boards = Boards(runtime_folder(serverapp.runtime_dir))
    storage = tuple(Path(folder.path) for folder in settings.storage)
    job = OwnJob(may_extend=settings.extend)
    _mount(serverapp.web_app, boards, Folders(Path(serverapp.root_dir), storage), settings, job)
    tools = tool_routes.routes(serverapp.web_app, settings, Path(serverapp.runtime_dir), Path(serverapp.root_dir))
    serverapp.web_app.add_handlers(".*$", tools)
    _use_provisioner(serverapp)
    serverapp.dsportal_reaper = PeriodicCallback(boards.stop_idle, REAPER_INTERVAL_S * 1000)
    serverapp.dsportal_reaper.start()
    serverapp.dsportal_before_end = PeriodicCallback(job.before_end.look, before_end.LOOK_EVERY_S * 1000)
    serverapp.dsportal_before_end.start()
    hub_auth = getattr(serverapp.identity_provider, "hub_auth", None)
    strangers.bound(hub_auth)
    jupyter_faults.mend()
    _close_sockets_of_ended_logins(serverapp, hub_auth)
    hand_on_none(os.environ)  # the server has read it


def _close_sockets_of_ended_logins(serverapp: Any, hub_auth: Any) -> None:
    if hub_auth is None:  # no hub gave the login
        return
    sockets = OpenSockets(login_of_hub(hub_auth), partial(tokens_of, hub_auth))
    sockets.watch()
    serverapp.dsportal_sockets = PeriodicCallback(sockets.look, LOOK_EVERY_S * 1000)
    serverapp.dsportal_sockets.start()


def _mount(web_app: Any, boards: Boards, folders: Folders, settings: SessionSettings, own: OwnJob) -> None:
    base = web_app.settings["base_url"]
    board = url_path_join(base, r"tensorboard/([0-9a-f]{16})(/.*)")
    all_boards = url_path_join(base, "dsportal/api/tensorboards")
    listed = {"boards": boards, "home": folders.home}
    places = tuple(map(Path, settings.template_folders))
    gallery = {"gallery": Gallery(folders.home, places, lesson_gpus.given(os.environ))}
    job = {"job": own}
    hub = HubCalls(connect, lambda: token.text)
    news = {"news": News(hub)}
    kernels = {"folders": folders_of(os.environ.get(KERNELS_PATH, ""))}
    browsed = Downloads(folders.home, folders.storage)
    downloads = {"downloads": browsed}
    files = web_app.settings.get("contents_manager")  # a person may have set another one
    read = files.read_places if isinstance(files, ReadFiles) else ReadPlaces()
    web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "tensorboard/open"), OpenHandler, {"boards": boards, "folders": folders}),
            (all_boards, BoardsHandler, listed),
            (f"{all_boards}/([0-9a-f]{{16}})", OwnBoardHandler, listed),
            (url_path_join(base, "dsportal/api/session"), SessionFactsHandler, {"settings": settings}),
            (url_path_join(base, "dsportal/api/time"), TimeHandler, job),
            (url_path_join(base, "dsportal/api/extend"), SessionExtendHandler, {"hub": hub, "end": end_time}),
            (url_path_join(base, "dsportal/api/news"), SessionNewsHandler, news),
            (url_path_join(base, "dsportal/api/archive"), ArchiveHandler, downloads),
            (url_path_join(base, ADDRESS), KernelFileHandler),
            (url_path_join(base, "dsportal/api/usage"), JobUsageHandler, job),
            (url_path_join(base, "dsportal/api/kernels"), KernelTrialsHandler, kernels),
            (url_path_join(base, "dsportal/api/templates"), CatalogueHandler, gallery),
            (url_path_join(base, "dsportal/api/copy"), CopyHandler, gallery),
            Rule(PathMatches(board), BoardRouter(web_app, boards)),
            *job_routes.routes(web_app, base, folders.home, read.is_another),
            *environment_routes.routes(web_app, base, settings.environments),
            *module_routes.routes(web_app, base),
            *export_routes.routes(base),
            *jupyter_faults.routes(base),
            *upload_routes.routes(web_app, base, browsed.shown, read.known),
        ],
    )


def _use_provisioner(serverapp: Any) -> None:
    factory = KernelProvisionerFactory.instance(parent=serverapp)
    if PROVISIONER in factory.provisioners:
        factory.default_provisioner_name = PROVISIONER
    else:
        serverapp.log.warning("The package dsportal is not installed here: kernels start by their wrapper.")
