# SPDX-License-Identifier: Apache-2.0
"""asyncio: eight connections with messages of all sizes at once."""

import asyncio
import os
import random
import sys


async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def client(port, numbers):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(40):
        message = numbers.randbytes(numbers.randint(1, 200_000))
        writer.write(message)
        assert await reader.readexactly(len(message)) == message
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


async def main():
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed, file=sys.stderr)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, random.Random(seed + i)) for i in range(8)))
    server.close()


asyncio.run(main())
