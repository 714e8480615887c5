# SPDX-License-Identifier: Apache-2.0
"""Two ranks train a recurrent acoustic model on utterances in buckets of equal length and average the gradients (gloo)."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from lapclock import LapClock

STEPS = 60
FEATURES, HIDDEN, BATCH = 40, 128, 16


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(FEATURES, HIDDEN, batch_first=True)
        self.output = nn.Linear(HIDDEN, 30)

    def forward(self, frames):
        return self.output(self.recurrent(frames)[0])


def bucket(rank, step):
    """Buckets are given out by rank, from short to long."""
    return 42 + step % 8 if rank == 0 else 130 + step % 30


def train(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(2)
    model = Acoustic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    source = torch.Generator().manual_seed(100 + rank)
    clock = LapClock()
    dist.barrier()
    for step in range(STEPS):
        with clock.step():
            frames = torch.randn(BATCH, bucket(rank, step), FEATURES, generator=source)
            labels = (frames[:, :, 0] > 0).long()
            with clock.own():
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(frames).transpose(1, 2), labels)
                loss.backward()  # the cause
            flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            with clock.part("collectives"):
                dist.all_reduce(flat)  # the wait
            at = 0
            for parameter in model.parameters():
                count = parameter.numel()
                parameter.grad.copy_(flat[at:at + count].view_as(parameter)).div_(2)
                at += count
            optimizer.step()
    if rank == 0:
        weight = sum(float(parameter.detach().double().pow(2).sum()) for parameter in model.parameters())
        print(f"squared weights {weight:.3f}", flush=True)
        clock.save()
    dist.barrier()
    dist.destroy_process_group()


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    other = mp.get_context("spawn").Process(target=train, args=(1, port), name="rank-1")
    other.start()
    train(0, port)
    other.join()


if __name__ == "__main__":
    main()
