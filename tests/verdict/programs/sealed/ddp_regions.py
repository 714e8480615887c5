# SPDX-License-Identifier: Apache-2.0
# Data-parallel training by torch.distributed (gloo). Started without arguments it launches its two workers, as torchrun does.
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist
from laps import Laps
from torch import nn

STEPS = 80
CITIES = {0: "north", 1: "south"}


def rasterise(batch, region):
    """Sparse regions are filled by relaxation, which takes many rounds."""
    rounds = 12 if region == "north" else 95
    for _ in range(rounds):
        batch = 0.25 * (batch.roll(1, 1) + batch.roll(-1, 1) + batch.roll(1, 2) + batch.roll(-1, 2))  # the cause
    return batch


def worker(rank):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Flatten(), nn.Linear(48 * 48, 256), nn.ReLU(), nn.Linear(256, 48 * 48))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    clock = Laps()
    for _ in range(STEPS):
        clock.begin()
        maps = rasterise(torch.rand(48, 48, 48, generator=generator), CITIES[rank])
        optimizer.zero_grad()
        loss = (net(maps) - maps.flatten(1)).square().mean()
        loss.backward()
        clock.lap("operations")
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)  # the wait
        clock.lap("collectives")
        optimizer.step()
        clock.lap("operations")
        clock.end()
    dist.destroy_process_group()
    if rank == 0:
        print(f"loss {loss.item():.2f}")
        clock.write()


def launch():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    workers = []
    for rank in range(2):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        workers.append(subprocess.Popen([sys.executable, __file__, "worker"], env=env))
    sys.exit(max(process.wait() for process in workers))


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker(int(os.environ["RANK"]))
    else:
        launch()
