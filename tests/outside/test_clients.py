# SPDX-License-Identifier: Apache-2.0
"""Clients of a profiler service that are too large for CI, unchanged, against jobs under `tbprof run --port`; run by
clients.sh, whose environment CLIENTS_PYTHON is.

What the same client does of itself is in docs/stock-clients.md; what xprof's does is tested in tests/xprof/.
"""

import glob
import os
import re
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "xprof"))

import profiler_rpc  # noqa: E402
import stock_client  # noqa: E402
import tool_data  # noqa: E402
from profiler_rpc import FakeService, Reply  # noqa: E402
from test_capture import (  # noqa: E402
    NOBODY, UNTIL_OPEN_S, Job, expect_one_file, expect_pages, length_of, read, space_of, window_of)
from test_stock_client import GOOD  # noqa: E402

PYTHON = os.environ["CLIENTS_PYTHON"]

KERAS = """
import numpy, keras
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = numpy.random.rand(3200, 64), numpy.random.randint(0, 10, 3200)
model.fit(x, y, batch_size=32, epochs=1, verbose=0)
print("warm", flush=True)
while True:
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
"""


def trace(address, logdir, **named):
    return stock_client.trace(address, logdir, client="tensorflow", python=PYTHON, **named)


def monitor(address, **named):
    return stock_client.monitor(address, client="tensorflow", python=PYTHON, **named)


@pytest.fixture(scope="module")
def jobs():
    with Job() as first, Job() as second, Job() as third:
        yield [job.warm() for job in (first, second, third)]


def test_the_file_is_as_it_was_sent(tmp_path):
    with FakeService([GOOD]) as service:
        outcome = trace(service.address, tmp_path)
        assert outcome.ok, outcome
        assert list(outcome.runs().values()) == [[f"127.0.0.1_{service.port}.xplane.pb"]]


# The calls as TensorFlow's own documentation of tf.profiler.experimental.client.trace has them.


def test_one_worker_for_2000_ms(jobs, tmp_path):
    """client.trace('localhost:6009', '/nfs/tb_log', 2000)"""
    address = f"localhost:{jobs[0].port}"
    outcome = trace(address, tmp_path, duration_ms=2000)
    directory, (space,) = expect_one_file(outcome, tmp_path, address)
    assert 1.98 < length_of(space) < 2.3
    expect_pages(directory, address)


def test_three_workers_with_a_delay(jobs, tmp_path):
    """client.trace('10.0.0.2:6009,10.0.0.3:6009,10.0.0.4:6009', '/nfs/tb_log', 2000, options=...delay_ms=2000)"""
    addresses = [job.address for job in jobs]
    options = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1, "delay_ms": 2000}
    outcome = trace(",".join(addresses), tmp_path, duration_ms=2000, options=options)
    _, spaces = expect_one_file(outcome, tmp_path, *addresses)
    begins = [window_of(space)[0] for space in spaces]
    assert max(begins) - min(begins) < 0.2
    assert all(1.98 < length_of(space) < 2.3 for space in spaces)


def test_one_of_three_is_dead(jobs, tmp_path):
    outcome = trace(",".join((jobs[0].address, NOBODY, jobs[1].address)), tmp_path)
    expect_one_file(outcome, tmp_path, jobs[0].address, jobs[1].address)
    assert f"{NOBODY} returned UNAVAILABLE" in outcome.log


def test_the_call_for_a_tpu_gets_the_documented_answer(jobs, tmp_path):
    """client.trace('grpc://10.0.0.2:8466', 'gs://your_tb_dir', 2000, worker_list=..., num_tracing_attempts=3)"""
    outcome = trace("grpc://" + jobs[0].address, tmp_path, workers=jobs[1].address, attempts=3, duration_ms=2000)
    assert not outcome.ok and "worker" in outcome.error
    assert not outcome.files


def test_what_it_refuses_itself(jobs, tmp_path):
    outcome = trace(jobs[0].address, tmp_path, duration_ms=0)
    assert outcome.error_type == "InvalidArgumentError"
    for address in ("127.0.0.1", "127.0.0.1:70000", "::1:6009"):
        assert not trace(address, tmp_path).ok
    assert not os.listdir(tmp_path)


def test_retries_while_another_has_it(tmp_path):
    with Job() as job:
        job.warm()
        first = profiler_rpc.start_profile(job.address, duration_ms=15000, session_id="first")
        time.sleep(UNTIL_OPEN_S)
        outcome = trace(job.address, tmp_path, attempts=3)
        assert not outcome.ok and outcome.log.count("returned ALREADY_EXISTS") >= 3, outcome.log
        job.hear("was refused: .* is open until", 5)
        profiler_rpc.terminate(job.address, session_id="first")
        assert first.result().ok
        expect_one_file(trace(job.address, tmp_path), tmp_path, job.address)


def test_monitor(jobs):
    outcome = monitor(jobs[0].address)
    assert outcome.ok and len(outcome.result.splitlines()) >= 2, outcome


def test_a_training_of_keras_has_its_steps(tmp_path):
    with Job(command=(PYTHON, "-c", KERAS)) as job:
        job.warm("output", "warm")
        outcome = trace(job.address, tmp_path, duration_ms=3000)
        directory, _ = expect_one_file(outcome, tmp_path, job.address)
        with tool_data.ToolData(directory) as data:
            assert len(tool_data.overview_steps(data.overview())) >= 20


def test_jax_collect_profile(tmp_path):
    with Job() as job:
        job.warm()
        said = subprocess.run(
            [PYTHON, "-m", "jax.collect_profile", str(job.port), "1000", "--log_dir", str(tmp_path), "--no_perfetto_link"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
        assert said.returncode == 0, said.stdout
        (file,) = glob.glob(str(tmp_path / "plugins" / "profile" / "*" / "*.xplane.pb"))
        assert re.fullmatch(rf"(127\.0\.0\.1|localhost)_{job.port}\.xplane\.pb", os.path.basename(file))
        assert 0.98 < length_of(space_of(read(file))) < 1.3
        # What it makes of the profile for Perfetto: it could read it.
        assert glob.glob(os.path.join(os.path.dirname(file), "remote.trace.json.gz"))
