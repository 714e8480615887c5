# SPDX-License-Identifier: Apache-2.0
"""PyTorch's other ways to a GPU; prints how many spin kernels were launched, by `launched=`.

torch_modes.py compile   torch.compile of a model, trained
torch_modes.py graphs    a training step as a CUDA graph, replayed
torch_modes.py loader    batches by a DataLoader with worker processes, backward in autograd's threads, two Python threads
TORCH_DEVICE=cpu tries the script where there is no GPU (77: this mode needs one).
"""

import os
import sys
import threading

import torch

device = torch.device(os.environ.get("TORCH_DEVICE", "cuda"))
on_gpu = device.type == "cuda"


def spin():
    if on_gpu:
        torch.cuda._sleep(50_000)


def make():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, at):
        generator = torch.Generator().manual_seed(at)
        return torch.randn(128, generator=generator), at % 10


def train(model, optimizer, batch, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch), labels)
    loss.backward()
    optimizer.step()
    return loss


def compiled():
    model, optimizer = make()
    fast = torch.compile(model)
    batch, labels = torch.randn(64, 128, device=device), torch.randint(0, 10, (64,), device=device)
    for _ in range(20):
        loss = train(fast, optimizer, batch, labels)
        spin()
    return 20, loss.item()


def graphs():
    if not on_gpu:
        sys.exit(77)
    model, optimizer = make()
    batch, labels = torch.randn(64, 128, device=device), torch.randint(0, 10, (64,), device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train(model, optimizer, batch, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(model, optimizer, batch, labels)
        spin()
    for _ in range(100):
        graph.replay()
    torch.cuda.synchronize()
    return 100, loss.item()


def loader():
    totals = []

    def one():
        model, optimizer = make()
        batches = torch.utils.data.DataLoader(Numbers(), batch_size=64, num_workers=2, pin_memory=on_gpu)
        for batch, labels in batches:
            loss = train(model, optimizer, batch.to(device, non_blocking=True), labels.to(device))
            spin()
        totals.append(loss.item())

    one()
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 30, len(totals)


launched, said = {"compile": compiled, "graphs": graphs, "loader": loader}[sys.argv[1]]()
if on_gpu:
    torch.cuda.synchronize()
print(f"launched={launched}\nsaid={said:.2f}")
