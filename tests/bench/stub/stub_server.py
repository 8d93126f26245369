"""The single-user server of every stub session at once: 200 to everything, as JupyterHub's check wants.

stub_server.py [PORT [VERSION]]     all addresses; VERSION goes into X-JupyterHub-Version (none: the hub warns once)
"""

from __future__ import annotations

import asyncio
import sys

PORT = 7999  # as in announce


async def serve(port: int, version: str) -> None:
    """Serve until the process is ended."""
    body = f'{{"version": "{version}"}}'.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    header = (head + (f"X-JupyterHub-Version: {version}\r\n" if version else "") + "\r\n").encode()
    answer = header + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await skip_body(reader, head.lower())
                writer.write(header if head.startswith(b"HEAD ") else answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "0.0.0.0", port, backlog=1000)  # noqa: S104  every node's address
    await server.serve_forever()


async def skip_body(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read what a request brings with it."""
    _, found, rest = head.partition(b"content-length:")
    if found:
        await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))


if __name__ == "__main__":
    chosen = sys.argv[1:]
    asyncio.run(serve(int(chosen[0]) if chosen else PORT, chosen[1] if chosen[1:] else ""))
