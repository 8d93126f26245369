"""TensorBoard's own page as its package holds it: packed already, so a start packs nothing.

TensorBoard 2.21 unpacks the 94 files of its ``webfiles.zip`` at each start and compresses them again for the browser: a
third of a second, most of it for an editor that the page of a debugger alone has. What the zip holds of a file is a raw
deflate stream, and so is a gzip file but for its header and its end (RFC 1951, 1952; PKWARE's APPNOTE, 4.3.7).
"""

from __future__ import annotations

import functools
import struct
import zipfile
from typing import IO, Any

from tensorboard.plugins.core import core_plugin

INDEX = "index.html"
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # deflate, no name, no time
LOCAL_HEADER = 30  # bytes, before the name and what else the local header has
NAME_AND_EXTRA_AT = 26


def take_as_packed() -> None:
    """From now on TensorBoard's own plugin takes its files so."""
    core_plugin.CorePlugin.get_resource_apps = resource_apps


def resource_apps(plugin: Any) -> dict[str, Any]:
    """What ``CorePlugin.get_resource_apps`` answers: an application for each file."""
    provider = plugin._assets_zip_provider
    if not provider:
        return {}
    with provider() as file, zipfile.ZipFile(file) as archive:
        apps = {
            f"/{info.filename}": functools.partial(plugin._serve_asset, info.filename, packed(archive, file, info))
            for info in archive.infolist()
            if info.filename != INDEX and not info.is_dir()
        }
        page = functools.partial(plugin._serve_index, archive.read(INDEX))
    return apps | {f"/{INDEX}": page, "/": page}


def packed(archive: zipfile.ZipFile, file: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """A file of the archive as a gzip file."""
    if info.compress_type != zipfile.ZIP_DEFLATED:
        return bytes(core_plugin._gzip(archive.read(info)))
    file.seek(info.header_offset + NAME_AND_EXTRA_AT)
    name, extra = struct.unpack("<HH", file.read(4))
    file.seek(info.header_offset + LOCAL_HEADER + name + extra)
    stream = file.read(info.compress_size)
    return GZIP_HEADER + stream + struct.pack("<II", info.CRC, info.file_size & 0xFFFFFFFF)
