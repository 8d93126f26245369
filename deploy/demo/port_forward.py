"""Bring connections of the host's port into the private network: accept on an inherited socket, connect inside."""

from __future__ import annotations

import asyncio
import contextlib
import socket

CHUNK = 65536
SILENT = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 2\r\nConnection: close\r\n\r\n"
    b"The portal is not answering. Its log is logs/hub.log in the demo's cluster folder.\n"
)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction; its end is passed on as an end, and the other direction goes on."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def refuse(writer: asyncio.StreamWriter) -> None:
    """Say that nobody listens inside, and close."""
    with contextlib.suppress(OSError):
        writer.write(SILENT)
        await writer.drain()
    writer.close()


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Forward one connection until both directions have ended; an error in one ends both."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await refuse(writer)
        return
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, inner_writer))
            group.create_task(pump(inner_reader, writer))
    except* OSError:
        pass
    finally:
        writer.close()
        inner_writer.close()


async def serve(listening: socket.socket, port: int) -> None:
    """Forward every connection of ``listening`` to ``port`` of this network namespace, until it is cancelled."""
    # asyncio refers to tasks weakly: a connection whose two sides both wait for room would be collected.
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(handle(reader, writer, port))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, sock=listening, backlog=512)
    await server.serve_forever()
