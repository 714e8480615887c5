# SPDX-License-Identifier: Apache-2.0
# A vision network with the thread settings of the 16-core machine on which it was written.
import torch
from laps import Laps
from torch import nn

THREADS = 16
STEPS = 90


def run():
    torch.manual_seed(5)
    torch.set_num_threads(THREADS)  # the cause
    net = nn.Sequential(nn.Linear(160, 320), nn.Tanh(), nn.Linear(320, 320), nn.Tanh(), nn.Linear(320, 20))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(1200, 160), torch.randint(0, 20, (1200,))
    clock = Laps()
    with open("/proc/thread-self/schedstat", encoding="ascii") as stat:
        for _ in range(STEPS):
            stat.seek(0)
            before = int(stat.read().split()[1])
            clock.begin()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)  # the cause
            loss.backward()  # the cause
            optimizer.step()  # the cause
            took = clock.lap("operations")
            clock.end()
            stat.seek(0)
            waited = min(took, (int(stat.read().split()[1]) - before) * 1e-9)
            clock.parts["operations"] -= waited
            clock.parts["starvation"] = clock.parts.get("starvation", 0.0) + waited
    print(f"loss {loss.item():.2f}")
    clock.write()


if __name__ == "__main__":
    run()
