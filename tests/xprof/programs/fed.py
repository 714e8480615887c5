"""fed.py SOURCE [PASSES [SECONDS]]: a training of PyTorch on the CPU, fed in one of several ways. Each step has PASSES
forward and backward passes (1), and making a batch takes SECONDS (0.016). Prints, as JSON, how long each step took by
its own clock and how much of that it waited for its batch, in seconds.

SOURCE: loader, workers, iterable (PyTorch's DataLoader), thread (queue.Queue), process (multiprocessing.Queue), socket,
file (npz), nothing (one batch for all steps), lock (one batch, and a lock that another thread holds).
"""

import json
import multiprocessing
import os
import queue
import socket
import sys
import tempfile
import threading
import time

import numpy
import torch

STEPS = 80
PASSES = int(sys.argv[2]) if len(sys.argv) > 2 else 1
NAP_S = float(sys.argv[3]) if len(sys.argv) > 3 else 0.016
ROWS, COLUMNS = 4, 64


def batch():
    return torch.ones(ROWS, COLUMNS), torch.ones(ROWS, 1)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * ROWS

    def __getitem__(self, index):
        time.sleep(NAP_S / ROWS)
        return torch.ones(COLUMNS), torch.ones(1)


class RowsInOrder(torch.utils.data.IterableDataset):
    def __iter__(self):
        rows = Rows()
        return (rows[i] for i in range(len(rows)))


def from_thread():
    batches = queue.Queue(2)

    def produce():
        for _ in range(STEPS):
            time.sleep(NAP_S)
            batches.put(batch())

    threading.Thread(target=produce, daemon=True).start()
    for _ in range(STEPS):
        yield batches.get()


def produce_for(batches):
    for _ in range(STEPS):
        time.sleep(NAP_S)
        batches.put(numpy.ones((ROWS, COLUMNS), "float32"))


def from_process():
    batches = multiprocessing.Queue(2)
    child = multiprocessing.Process(target=produce_for, args=(batches,), daemon=True)
    child.start()
    for _ in range(STEPS):
        yield torch.from_numpy(batches.get()), torch.ones(ROWS, 1)
    child.join()


def from_socket():
    ours, theirs = socket.socketpair()
    size = 4 * ROWS * COLUMNS
    if os.fork() == 0:
        for _ in range(STEPS):
            time.sleep(NAP_S)
            theirs.sendall(bytes(size))
        os._exit(0)
    for _ in range(STEPS):
        data = ours.recv(size, socket.MSG_WAITALL)
        yield torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(ROWS, COLUMNS), torch.ones(ROWS, 1)


def from_files():
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "batch.npz")
    numpy.savez_compressed(path, rows=numpy.random.rand(200, 200))
    for _ in range(STEPS):
        rows = numpy.load(path)["rows"].astype("float32")
        yield torch.from_numpy(rows[:ROWS, :COLUMNS].copy()), torch.ones(ROWS, 1)


def from_memory():
    one = batch()
    for _ in range(STEPS):
        yield one


def behind_a_lock():
    one, lock, held = batch(), threading.Lock(), threading.Event()

    def hold():
        while True:
            with lock:
                held.set()
                time.sleep(NAP_S)
            held.clear()
            time.sleep(NAP_S / 16)

    threading.Thread(target=hold, daemon=True).start()
    for _ in range(STEPS):
        held.wait()
        with lock:
            yield one


def source(name):
    loader = torch.utils.data.DataLoader
    return {
        "loader": lambda: loader(Rows(), batch_size=ROWS),
        "workers": lambda: loader(Rows(), batch_size=ROWS, num_workers=2),
        "iterable": lambda: loader(RowsInOrder(), batch_size=ROWS, num_workers=1),
        "thread": from_thread,
        "process": from_process,
        "socket": from_socket,
        "file": from_files,
        "nothing": from_memory,
        "lock": behind_a_lock,
    }[name]()


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches, waits, lengths = iter(source(sys.argv[1])), [], []
    while True:
        start = time.perf_counter()
        pair = next(batches, None)
        if pair is None:
            break
        waits.append(time.perf_counter() - start)
        for _ in range(PASSES):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(pair[0]), pair[1]).backward()
        optimizer.step()
        lengths.append(time.perf_counter() - start)
    print(json.dumps({"waits": waits, "lengths": lengths}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
