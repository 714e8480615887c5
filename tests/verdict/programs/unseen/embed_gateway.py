# SPDX-License-Identifier: Apache-2.0
"""Distils a remote sentence encoder: each step asks the gateway for the teacher's vectors, then fits the student."""

import asyncio
import multiprocessing
import struct

import numpy as np
import torch
from torch import nn

from lapclock import LapClock

STEPS = 90
BATCH, WORDS, WIDTH = 96, 24, 128


def gateway(port_sender):
    """Stands for the encoder in the other data centre: some latency, then an answer in one piece."""

    async def answer(reader, writer):
        vectors = np.random.default_rng(1).normal(0, 1, (BATCH, WIDTH)).astype(np.float32)
        try:
            while True:
                (step,) = struct.unpack("<I", await reader.readexactly(4))
                await asyncio.sleep(0.03)
                body = np.roll(vectors, step, axis=0).tobytes()
                writer.write(struct.pack("<I", len(body)) + body)
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    async def serve():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port_sender.send(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    asyncio.run(serve())


async def teacher_vectors(reader, writer, step):
    writer.write(struct.pack("<I", step))
    await writer.drain()
    (size,) = struct.unpack("<I", await reader.readexactly(4))
    body = await reader.readexactly(size)
    return torch.frombuffer(bytearray(body), dtype=torch.float32).view(BATCH, WIDTH)


async def distil(port, clock):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    student = nn.Sequential(nn.Linear(WIDTH, 384), nn.GELU(), nn.Linear(384, WIDTH), nn.Tanh())
    table = nn.Embedding(3000, WIDTH)
    optimizer = torch.optim.SGD([*student.parameters(), *table.parameters()], lr=0.05)
    total = 0.0
    for step in range(STEPS):
        with clock.step():
            with clock.part("network"):
                wanted = await teacher_vectors(reader, writer, step)  # the cause
            with clock.own():
                words = (torch.arange(BATCH * WORDS).view(BATCH, WORDS) * 7 + step) % 3000
                loss = nn.functional.mse_loss(student(table(words)).mean(dim=1), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
    writer.close()
    await writer.wait_closed()
    return total / STEPS


def main():
    torch.manual_seed(19)
    torch.set_num_threads(1)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    service = multiprocessing.Process(target=gateway, args=(sender,), daemon=True, name="gateway")
    service.start()
    clock = LapClock()
    mean = asyncio.run(distil(receiver.recv(), clock))
    service.terminate()
    service.join()
    print(f"mean loss {mean:.4f}")
    clock.save()


if __name__ == "__main__":
    main()
