"""What xprof makes of a run directory, without a browser.

    python tests/xprof/tool_data.py RUN_DIR [--tool T] [--host H]

prints JSON: for one tool its data, else a summary of all of them. RUN_DIR is
<logdir>/plugins/profile/<run>. It is copied first: xprof writes its caches beside
the files it reads. Run it with the environment that scripts/venv.sh makes.
"""

import argparse
import glob
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import xspace_maker  # noqa: E402

# One level of detail finer than any screen; the streaming viewer then returns every event.
ALL_EVENTS = "1000000000"


class NativeLog:
    """Keeps what the native layer writes to stderr: fifty lines for a tool that worked."""

    def __enter__(self):
        sys.stderr.flush()
        self._file = tempfile.TemporaryFile()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        self.text = self._file.read().decode("utf-8", "replace")
        self._file.close()

    def complaints(self):
        """Errors and warnings; not the ones about choosing between two code paths."""
        usual = ("ProfileProcessor", "Unified processor not found", "No HLO proto found")
        lines = [line for line in self.text.splitlines() if line[:1] in "EWF" and line[1:2].isdigit()]
        return "\n".join(line for line in lines if not any(text in line for text in usual))


class ToolData:
    """Context manager over a private copy of a run directory."""

    def __init__(self, run_dir):
        self.run_dir = run_dir

    def __enter__(self):
        self._temp = tempfile.TemporaryDirectory(prefix="tool_data.")
        copy = os.path.join(self._temp.name, "plugins", "profile", "run")
        os.makedirs(copy)
        for path in glob.glob(os.path.join(self.run_dir, "*.xplane.pb")):
            shutil.copy(path, copy)
        self.paths = sorted(glob.glob(os.path.join(copy, "*.xplane.pb")))
        if not self.paths:
            raise FileNotFoundError(f"no *.xplane.pb in {self.run_dir}")
        return self

    def __exit__(self, *_):
        self._temp.cleanup()

    def _paths(self, host):
        if host is None:
            return self.paths
        return [p for p in self.paths if os.path.basename(p) == host + ".xplane.pb"]

    def raw(self, tool, options=None, host=None):
        """The native layer's bytes; RuntimeError with its reason when it fails."""
        from xprof.convert import _pywrap_profiler_plugin as native

        options = dict({"use_saved_result": False}, **(options or {}))
        with NativeLog() as log:
            try:
                data, ok = native.xspace_to_tools_data(self._paths(host), tool, options)
            except RuntimeError as error:
                data, ok = str(error), False
        if not ok:
            reason = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
            raise RuntimeError(f"{tool}: {reason}\n{log.complaints()}".rstrip())
        return data

    def tool_names(self):
        return self.raw("tool_names").decode().split(",")

    def json(self, tool, options=None, host=None):
        data = self.raw(tool, options, host)
        return json.loads(data) if data else None

    def overview(self, host=None):
        return self.json("overview_page", host=host)

    def input_pipeline(self, host=None):
        return self.json("input_pipeline_analyzer", host=host)

    def op_stats(self, host=None):
        return self.json("framework_op_stats", host=host)

    def kernel_stats(self, host=None):
        return self.json("kernel_stats", host=host)

    def memory_profile(self, host=None):
        return self.json("memory_profile", host=host)

    def trace(self, host=None, options=None):
        """The streaming viewer's JSON, at a resolution that hides nothing."""
        wanted = {"resolution": ALL_EVENTS}
        wanted.update(options or {})
        return self.json("trace_viewer@", wanted, host)

    def trace_events(self, host=None):
        """(events, rows): events with ph X/C/s/f..., rows {(pid, tid): (process, thread)}."""
        processes, threads, events = {}, {}, []
        for event in self.trace(host)["traceEvents"]:
            if not event:
                continue
            if event["ph"] != "M":
                events.append(event)
            elif event["name"] == "process_name":
                processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                threads[event["pid"], event["tid"]] = event["args"]["name"]
        return events, {key: (processes.get(key[0]), name) for key, name in threads.items()}

    def grouped(self, host=None):
        """The XSpace after xprof's grouping: the best oracle for steps and derived lines."""
        return xspace_maker.decode(self.raw("_xplane.pb", host=host or self.hosts()[0]))

    def hosts(self):
        return [os.path.basename(p)[: -len(".xplane.pb")] for p in self.paths]


def overview_steps(overview):
    """{step name: {column: value}} of an overview page, without the tooltips."""
    for table in overview or []:
        columns = [column["id"] for column in table.get("cols", [])]
        if "stepnum" in columns:
            steps = {}
            for row in table["rows"]:
                values = dict(zip(columns, (cell.get("v") for cell in row["c"])))
                values.pop("tooltip", None)
                steps[values.pop("stepnum")] = values
            return steps
    return {}


def op_rows(data):
    """{(Host or Device, operation): row} of the table of operations, without the time that nothing ran."""
    table = data.op_stats()[0]
    columns = [column["id"] for column in table["cols"]]
    rows = [dict(zip(columns, (cell.get("v") for cell in row["c"]))) for row in table["rows"]]
    return {(row["host_or_device"], row["operation"]): row for row in rows if row["type"] != "IDLE"}


def diagnostics(overview):
    """[(severity, message)] of an overview page."""
    for table in overview or []:
        if [column["id"] for column in table.get("cols", [])] == ["severity", "message"]:
            return [tuple(cell.get("v") for cell in row["c"]) for row in table["rows"]]
    return []


def properties(page):
    """All table properties ('p') of a page in one dictionary."""
    merged = {}
    for table in page or []:
        merged.update(table.get("p") or {})
    return merged


def summary(data):
    events, rows = data.trace_events(data.hosts()[0])
    overview = data.overview()
    return {
        "hosts": data.hosts(),
        "tools": data.tool_names(),
        "steps": overview_steps(overview),
        "diagnostics": diagnostics(overview),
        "overview": properties(overview),
        "events": len(events),
        "rows": [{"pid": p, "tid": t, "process": r[0], "thread": r[1]} for (p, t), r in rows.items()],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run_dir")
    parser.add_argument("--tool", help="overview_page, trace_viewer@, memory_profile, grouped, ...")
    parser.add_argument("--host", help="one file of several")
    args = parser.parse_args()
    with ToolData(args.run_dir) as data:
        if not args.tool:
            result = summary(data)
        elif args.tool in ("grouped", "_xplane.pb"):
            result = data.grouped(args.host)
        elif args.tool == "trace_viewer@":
            result = data.trace(args.host)
        elif args.tool == "tool_names":
            result = data.tool_names()
        else:
            result = data.json(args.tool, host=args.host)
    print(json.dumps(result, indent=1, default=lambda value: bytes(value).hex()))


if __name__ == "__main__":
    main()
