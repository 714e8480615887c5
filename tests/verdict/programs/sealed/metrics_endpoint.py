# SPDX-License-Identifier: Apache-2.0
# Bzip2 language identification with a metrics endpoint that nobody asks.
import bz2
import http.server
import random
import threading

from laps import Laps

STEPS = 100
SOUNDS = {"A": "aeiou", "B": "ptkmn", "C": "szrla"}


class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"up 1\n")


def blocking_server(server):
    while True:
        server.handle_request()


def sample(rng, language, length):
    return "".join(rng.choices(SOUNDS[language] + "bcd ", k=length)).encode()


def run():
    rng = random.Random(51)
    server = http.server.HTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=blocking_server, args=(server,), name="metrics-http", daemon=True).start()
    profiles = {language: sample(rng, language, 9000) for language in SOUNDS}
    tests = [(language, sample(rng, language, 1500)) for language in SOUNDS for _ in range(40)]
    clock = Laps()
    right = 0
    for step in range(STEPS):
        clock.begin()
        for i in range(12):
            language, text = tests[(step * 12 + i) % len(tests)]
            sizes = {name: len(bz2.compress(profile + text)) for name, profile in profiles.items()}
            right += min(sizes, key=sizes.get) == language
        clock.lap("operations")
        clock.end()
    print("right", right)
    clock.write()


if __name__ == "__main__":
    run()
