# SPDX-License-Identifier: Apache-2.0
"""The profiler service's protocol by hand: a raw client, and a fake server whose answers are scripted.

    result = profile("127.0.0.1:6009", duration_ms=500, session_id="s")     # .code, .details, .response
    with FakeService([Reply(tool_data=[("xplane.pb", data)])]) as service:  # service.address, service.requests

Nothing here depends on generated code: the messages are made from SCHEMA, and what a peer sends beyond it is
reported as `unknown`. As a program:

    .venv/bin/python tests/xprof/profiler_rpc.py profile HOST:PORT [--set duration_ms=500] [--timeout 70]
    .venv/bin/python tests/xprof/profiler_rpc.py monitor|terminate|new_session|enum_sessions HOST:PORT [--set ...]
    .venv/bin/python tests/xprof/profiler_rpc.py serve [SCRIPT.json] [--port 0] [--seconds 600]

SCRIPT.json is a list of objects with the fields of Reply, data as text; `serve` prints the address, then one line of
JSON for every request.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import sys
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, unknown_fields

from stock_client import option

SERVICE = "/tensorflow.ProfilerService/"
ANALYSIS = "/tensorflow.ProfileAnalysis/"
LONGEST = 2**31 - 1  # the most that a stock client receives

# message: [(number, name, type)]. 'x*' is repeated, 'a>b' a map; an upper-case initial names a message.
# XSpace is left as bytes: it has the same encoding, and xspace_maker reads it.
SCHEMA = {
    "ToolRequestOptions": [(2, "output_formats", "string"), (3, "save_to_repo", "bool")],
    "TraceOptions": [(1, "host_traceme_filter_mask", "uint64")],
    "AdvancedConfigValue": [(1, "string_value", "string"), (2, "bool_value", "bool"), (3, "int64_value", "int64")],
    "ProfileOptions": [
        (1, "include_dataset_ops", "bool"),
        (2, "host_tracer_level", "uint32"),
        (3, "device_tracer_level", "uint32"),
        (4, "python_tracer_level", "uint32"),
        (5, "version", "uint32"),
        (6, "device_type", "int32"),
        (7, "enable_hlo_proto", "bool"),
        (8, "start_timestamp_ns", "uint64"),
        (9, "duration_ms", "uint64"),
        (10, "repository_path", "string"),
        (11, "trace_options", "TraceOptions"),
        (12, "advanced_configuration", "string>AdvancedConfigValue"),
        (13, "raise_error_on_start_failure", "bool"),
        (14, "session_id", "string"),
        (15, "override_hostname", "string"),
        (16, "enable_multipass", "bool"),
    ],
    "ProfileRequest": [
        (1, "duration_ms", "uint64"),
        (2, "max_events", "uint64"),
        (3, "tools", "string*"),
        (4, "opts", "ProfileOptions"),
        (5, "repository_root", "string"),
        (6, "session_id", "string"),
        (7, "host_name", "string"),
        (8, "tool_options", "string>ToolRequestOptions"),
        (9, "emit_xspace", "bool"),
    ],
    "ProfileToolData": [(1, "name", "string"), (2, "data", "bytes")],
    "ProfileResponse": [(6, "tool_data", "ProfileToolData*"), (7, "empty_trace", "bool"), (8, "xspace", "bytes")],
    "TerminateRequest": [(1, "session_id", "string")],
    "TerminateResponse": [],
    "MonitorRequest": [(1, "duration_ms", "uint64"), (2, "monitoring_level", "int32"), (3, "timestamp", "bool")],
    "ProfilerServiceMonitorResult": [
        (1, "response_type", "int32"),
        (2, "device_idle_time_percent", "double"),
        (3, "matrix_unit_utilization_percent", "double"),
        (4, "step_time_ms_avg", "double"),
        (5, "step_time_ms_min", "double"),
        (6, "step_time_ms_max", "double"),
        (7, "infeed_percent_avg", "double"),
        (8, "infeed_percent_min", "double"),
        (9, "infeed_percent_max", "double"),
    ],
    "MonitorResponse": [(1, "data", "string"), (10, "monitor_result", "ProfilerServiceMonitorResult")],
    "ContinuousProfilingResponse": [],
    "StopContinuousProfilingRequest": [],
    "StopContinuousProfilingResponse": [],
    "GetSnapshotRequest": [(1, "snapshot_session_id", "string")],
    "NewProfileSessionRequest": [
        (1, "request", "ProfileRequest"),
        (2, "repository_root", "string"),
        (3, "hosts", "string*"),
        (4, "session_id", "string"),
    ],
    "NewProfileSessionResponse": [(1, "error_message", "string"), (2, "empty_trace", "bool")],
    "EnumProfileSessionsAndToolsRequest": [(1, "repository_root", "string")],
    "ProfileSessionInfo": [(1, "session_id", "string"), (2, "available_tools", "string*")],
    "EnumProfileSessionsAndToolsResponse": [(1, "error_message", "string"), (2, "sessions", "ProfileSessionInfo*")],
}

METHODS = {
    SERVICE + "Profile": ("ProfileRequest", "ProfileResponse"),
    SERVICE + "Terminate": ("TerminateRequest", "TerminateResponse"),
    SERVICE + "Monitor": ("MonitorRequest", "MonitorResponse"),
    SERVICE + "StartContinuousProfiling": ("ProfileRequest", "ContinuousProfilingResponse"),
    SERVICE + "StopContinuousProfiling": ("StopContinuousProfilingRequest", "StopContinuousProfilingResponse"),
    SERVICE + "GetSnapshot": ("GetSnapshotRequest", "ProfileResponse"),
    ANALYSIS + "NewSession": ("NewProfileSessionRequest", "NewProfileSessionResponse"),
    ANALYSIS + "EnumSessions": ("EnumProfileSessionsAndToolsRequest", "EnumProfileSessionsAndToolsResponse"),
}


def _classes():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="profiler_rpc.proto", package="tensorflow", syntax="proto3")

    def add(message, number, name, kind):
        entry = message.field.add(number=number, name=name, label=kinds.LABEL_OPTIONAL)
        if kind.endswith("*"):
            entry.label, kind = kinds.LABEL_REPEATED, kind[:-1]
        if ">" in kind:
            key, value = kind.split(">")
            inner = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
            inner.options.map_entry = True
            add(inner, 1, "key", key)
            add(inner, 2, "value", value)
            entry.label, kind = kinds.LABEL_REPEATED, f"{message.name}.{inner.name}"
        if kind[0].isupper():
            entry.type, entry.type_name = kinds.TYPE_MESSAGE, ".tensorflow." + kind
        else:
            entry.type = kinds.Type.Value("TYPE_" + kind.upper())

    for message_name, fields in SCHEMA.items():
        message = file.message_type.add(name=message_name)
        for number, name, kind in fields:
            add(message, number, name, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow." + name)) for name in SCHEMA}


MESSAGES = _classes()


def make(message_name, fields):
    """A message from a dictionary; nested messages are dictionaries too."""
    message = MESSAGES[message_name]()
    for name, value in fields.items():
        kind = next(kind for _, known, kind in SCHEMA[message_name] if known == name)
        if ">" in kind:
            inner = kind.split(">")[1]
            for key, entry in value.items():
                getattr(message, name)[key].CopyFrom(make(inner, entry))
        elif kind.endswith("*") and kind[0].isupper():
            getattr(message, name).extend(make(kind[:-1], entry) for entry in value)
        elif kind.endswith("*"):
            getattr(message, name).extend(value)
        elif kind[0].isupper():
            getattr(message, name).CopyFrom(make(kind, value))
            getattr(message, name).SetInParent()
        else:
            setattr(message, name, value)
    return message


def plain(message):
    """The fields that were on the wire, as a dictionary of plain values."""
    out = {}
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            out[field.name] = {key: plain(entry) for key, entry in value.items()}
        elif field.message_type and isinstance(value, (list, tuple)) or hasattr(value, "add"):
            out[field.name] = [plain(entry) for entry in value]
        elif field.message_type:
            out[field.name] = plain(value)
        else:
            out[field.name] = value if isinstance(value, (str, bytes, int, float, bool)) else list(value)
    return out


def unknown(message, path=""):
    """['opts.17', ...]: what the peer sent that SCHEMA does not know."""
    found = [f"{path}{field.field_number}" for field in unknown_fields.UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for entry in value if hasattr(value, "add") else [value]:
                found += unknown(entry, f"{path}{field.name}.")
    return found


# The client.


@dataclasses.dataclass
class Result:
    code: str  # OK, UNAVAILABLE, ...
    details: str
    response: object  # the message, or None
    seconds: float

    @property
    def ok(self):
        return self.code == "OK"

    def files(self):
        return {entry.name: entry.data for entry in self.response.tool_data} if self.response else {}

    def as_json(self):
        shown = plain(self.response) if self.response is not None else None
        for entry in (shown or {}).get("tool_data", []):
            entry["data"] = f"{len(entry.get('data', b''))} bytes"
        if shown and "xspace" in shown:
            shown["xspace"] = f"{len(shown['xspace'])} bytes"
        return {"code": self.code, "details": self.details, "response": shown, "seconds": round(self.seconds, 3)}


class Call:
    """One call under way: `result()` waits for it, `cancel()` gives it up."""

    def __init__(self, address, method, request, timeout=70.0):
        names = METHODS[method]
        options = [("grpc.max_receive_message_length", LONGEST), ("grpc.enable_http_proxy", 0)]
        options += [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options)
        self._begin = time.monotonic()
        if not isinstance(request, (bytes, bytearray)):
            request = (request if not isinstance(request, dict) else make(names[0], request)).SerializeToString()
        call = self._channel.unary_unary(method, None, MESSAGES[names[1]].FromString)
        self._future = call.future(request, timeout=timeout)

    def cancel(self):
        self._future.cancel()

    def done(self):
        return self._future.done()

    def result(self):
        try:
            response = self._future.result()
            return Result("OK", "", response, time.monotonic() - self._begin)
        except grpc.RpcError as error:
            return Result(error.code().name, error.details(), None, time.monotonic() - self._begin)
        except grpc.FutureCancelledError:
            return Result("CANCELLED", "cancelled by this client", None, time.monotonic() - self._begin)
        finally:
            self._channel.close()


def profile_fields(address, **fields):
    """What a stock client sends, but for what `fields` says otherwise."""
    opts = {"version": 1, "include_dataset_ops": True, "host_tracer_level": 2, "device_tracer_level": 1}
    opts.update({"enable_hlo_proto": True, "duration_ms": fields.get("duration_ms", 500)})
    opts.update(fields.pop("opts", {}))
    request = {"duration_ms": 500, "max_events": 1000000, "tools": ["xplane.pb"], "host_name": address}
    request.update({"session_id": time.strftime("%Y_%m_%d_%H_%M_%S"), "opts": opts}, **fields)
    return request


def start_profile(address, timeout=70.0, **fields):
    return Call(address, SERVICE + "Profile", profile_fields(address, **fields), timeout)


def profile(address, timeout=70.0, **fields):
    return start_profile(address, timeout, **fields).result()


def terminate(address, session_id="", timeout=10.0):
    return Call(address, SERVICE + "Terminate", {"session_id": session_id}, timeout).result()


def monitor(address, timeout=70.0, **fields):
    request = {"duration_ms": 500, "monitoring_level": 1}
    request.update(fields)
    return Call(address, SERVICE + "Monitor", request, timeout).result()


def new_session(address, timeout=70.0, hosts=None, **fields):
    request = profile_fields(address, **fields)
    session = {"request": request, "hosts": hosts or [address], "session_id": request["session_id"]}
    session["repository_root"] = request.get("repository_root", "")
    return Call(address, ANALYSIS + "NewSession", session, timeout).result()


def enum_sessions(address, repository_root="", timeout=10.0):
    return Call(address, ANALYSIS + "EnumSessions", {"repository_root": repository_root}, timeout).result()


def raw(address, method, data=b"", timeout=10.0):
    """Bytes that need not be a message."""
    return Call(address, method, data, timeout).result()


# The fake server.


@dataclasses.dataclass
class Reply:
    code: str = "OK"
    details: str = ""
    delay: float = 0.0  # seconds; ended by Terminate where wait_for_terminate
    tool_data: list = dataclasses.field(default_factory=list)  # [(name, bytes or text)]
    empty_trace: bool = False
    xspace: bytes = None
    data: str = ""  # of Monitor
    monitor_result: dict = None
    error_message: str = ""  # of NewSession


class FakeService:
    """A profiler service on loopback. Every Profile, Monitor, NewSession, GetSnapshot takes the next reply of the
    script; the last one is used again for all that follow. `requests` has what came, in order of arrival."""

    def __init__(self, script=(), port=0, host="127.0.0.1", on_request=None):
        self.script = [reply if isinstance(reply, Reply) else Reply(**reply) for reply in script] or [Reply()]
        self.requests = []
        self._taken = 0
        self._lock = threading.Lock()
        self._on_request = on_request
        self._workers = concurrent.futures.ThreadPoolExecutor(16)
        options = [("grpc.max_send_message_length", LONGEST), ("grpc.max_receive_message_length", LONGEST)]
        options += [("grpc.so_reuseport", 0)]
        self._server = grpc.server(self._workers, options=options)
        handlers = {method: self._handler(method) for method in METHODS}

        class Handler(grpc.GenericRpcHandler):
            def service(_, details):
                return handlers.get(details.method) or self._other(details.method)

        self._server.add_generic_rpc_handlers([Handler()])
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        self.address = f"{host}:{self.port}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def of(self, method):
        """The requests of one method, as dictionaries."""
        return [entry["request"] for entry in self.requests if entry["method"].endswith("/" + method)]

    def _record(self, method, request, context, extra):
        entry = {
            "at": time.time(),
            "method": method,
            "request": plain(request) if request is not None else None,
            "unknown": unknown(request) if request is not None else [],
            "deadline_s": context.time_remaining(),
            "metadata": {key: value for key, value in context.invocation_metadata() if isinstance(value, str)},
            "address": self.address,
        }
        entry.update(extra)
        with self._lock:
            self.requests.append(entry)
        if self._on_request:
            self._on_request(entry)
        return entry

    def _next(self):
        with self._lock:
            reply = self.script[min(self._taken, len(self.script) - 1)]
            self._taken += 1
            return reply

    def _other(self, method):
        def answer(_, context):
            self._record(method, None, context, {"code": "UNIMPLEMENTED"})
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"no {method}")

        return grpc.unary_unary_rpc_method_handler(answer)

    def _handler(self, method):
        names = METHODS[method]

        def answer(request, context):
            if method.endswith("Terminate"):
                self._record(method, request, context, {"code": "OK"})
                return MESSAGES[names[1]]()
            reply = self._next()
            entry = self._record(method, request, context, {"code": reply.code})
            end = time.monotonic() + reply.delay
            while time.monotonic() < end and context.is_active():
                time.sleep(0.01)
            if not context.is_active():
                entry["gone_after_s"] = round(time.time() - entry["at"], 3)
            if reply.code != "OK":
                context.abort(grpc.StatusCode[reply.code], reply.details or f"scripted {reply.code}")
            return self._response(names[1], reply)

        message = MESSAGES[names[0]]
        return grpc.unary_unary_rpc_method_handler(answer, message.FromString, lambda out: out.SerializeToString())

    @staticmethod
    def _response(name, reply):
        fields = {}
        if name == "ProfileResponse":
            data = [(name, data.encode() if isinstance(data, str) else data) for name, data in reply.tool_data]
            fields["tool_data"] = [{"name": name, "data": data} for name, data in data]
            fields["empty_trace"] = reply.empty_trace
            if reply.xspace is not None:
                fields["xspace"] = reply.xspace
        elif name == "MonitorResponse":
            fields["data"] = reply.data
            if reply.monitor_result:
                fields["monitor_result"] = reply.monitor_result
        elif name == "NewProfileSessionResponse":
            fields.update(error_message=reply.error_message, empty_trace=reply.empty_trace)
        return make(name, fields)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("profile", "monitor", "terminate", "new_session", "enum_sessions"):
        command = commands.add_parser(name)
        command.add_argument("address")
        command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="VALUE is JSON, or text")
        command.add_argument("--timeout", type=float, default=70.0)
        command.add_argument("--save", metavar="FILE", help="where the first tool_data goes")
    command = commands.add_parser("serve")
    command.add_argument("script", nargs="?")
    command.add_argument("--port", type=int, default=0)
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--seconds", type=float, default=600.0)
    args = parser.parse_args()
    if args.command == "serve":
        script = []
        if args.script:
            with open(args.script, encoding="utf-8") as file:
                script = json.load(file)

        def show(entry):
            print(json.dumps(entry, default=str), flush=True)

        with FakeService(script, args.port, args.host, show) as service:
            print(service.address, flush=True)
            time.sleep(args.seconds)
        return 0
    result = globals()[args.command](args.address, timeout=args.timeout, **dict(map(option, args.set)))
    if args.save and result.files():
        with open(args.save, "wb") as file:
            file.write(next(iter(result.files().values())))
    print(json.dumps(result.as_json(), indent=1))
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
