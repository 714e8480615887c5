# SPDX-License-Identifier: Apache-2.0
# Incremental training on features of a service; the service (here a process of its own) looks them up one by one.
import multiprocessing
import random
import socket
import struct
import time
import zlib

from laps import Laps

STEPS = 100
KEYS = 24


def serve(listener):
    rng = random.Random(1)
    pages = [bytes(rng.randrange(200) for _ in range(2400)) for _ in range(50)]
    connection, _ = listener.accept()
    with connection:
        while head := connection.recv(4, socket.MSG_WAITALL):
            (key,) = struct.unpack("!I", head)
            time.sleep(0.0013)  # the cause
            connection.sendall(pages[key % len(pages)])


class Features:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, key):
        self.socket.sendall(struct.pack("!I", key))
        page = bytearray()
        while len(page) < 2400:
            page += self.socket.recv(2400 - len(page))  # the wait
        return page


def run():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = multiprocessing.Process(target=serve, args=(listener,), name="feature-service", daemon=True)
        service.start()
        features = Features(listener.getsockname()[1])
    rng = random.Random(2)
    clock = Laps()
    cost = 0
    for _ in range(STEPS):
        keys = [rng.randrange(1000) for _ in range(KEYS)]
        clock.begin()
        rows = [features.get(key) for key in keys]  # the wait
        clock.lap("network")
        for level in (6, 9):
            cost += len(zlib.compress(b"".join(rows) * 4, level))
        clock.lap("operations")
        clock.end()
    features.socket.close()
    service.join()
    print("cost", cost)
    clock.write()


if __name__ == "__main__":
    run()
