#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# An unchanged CUDA build of PyTorch on a machine without a driver: bare and under tbprof it must import and train on the
# CPU with the same output.
#
#   tests/outside/cuda_torch.sh [--tbprof PATH] [--venv DIR] [--repeat N]
#
#   --tbprof PATH  the program (build/bin/tbprof)
#   --venv DIR     where PyTorch is, or is installed (/tmp/tbprof-cuda-torch): 7 GB, from PyPI; it stays
#   --repeat N     pairs of imports that are timed, in turn (5)
#
# Prints the ratios of the import times, profiled to bare; only outputs and statuses decide. Exit status 1 if they differ, 77 if
# PyTorch cannot be had.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

tbprof=$TBPROF_ROOT/build/bin/tbprof
venv=/tmp/tbprof-cuda-torch
repeat=5
while (($#)); do
  case $1 in
    --tbprof | --venv | --repeat)
      (($# > 1)) || usage_error "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) usage && exit ;;
    *) usage_error "unknown argument '$1'" ;;
  esac
  shift
done
[[ -x $tbprof ]] || fail "no $tbprof: build it first"

skip() {
  say "SKIP: $*"
  exit 77
}

python=$venv/bin/python
if ! "$python" -c 'import torch' 2>/dev/null; then
  free=$(df --output=avail -k "$(dirname "$venv")" | tail -1)
  ((free > 12 << 20)) || skip "less than 12 GB free beside $venv"
  [[ -x $python ]] || python3 -m venv "$venv" || skip "no virtual environment can be made"
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir torch numpy || skip "pip could not install torch"
fi
"$python" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' || skip "that PyTorch is a CPU build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/train.py" <<'PYTHON'
import torch

torch.manual_seed(3)
torch.set_num_threads(1)
print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count())
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch, labels = torch.randn(128, 32), torch.randint(0, 4, (128,))
for step in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch), labels)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.6f}")
try:
    torch.zeros(1, device="cuda")
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
PYTHON

status=0
# compare NAME COMMAND...
compare() {
  local name=$1 bare=0 profiled=0
  shift
  "$@" >"$work/bare.out" 2>"$work/bare.err" || bare=$?
  "$tbprof" run --logdir="$work/logs" --log-file="$work/$name.said" -- "$@" >"$work/profiled.out" 2>"$work/all.err" ||
    profiled=$?
  grep -v '^tbprof: ' "$work/all.err" >"$work/profiled.err" || true
  if ((bare == profiled)) && cmp -s "$work/bare.out" "$work/profiled.out" && cmp -s "$work/bare.err" "$work/profiled.err"; then
    echo "same       $name (status $bare)"
  else
    echo "different  $name (status $bare bare, $profiled profiled)"
    diff "$work/bare.out" "$work/profiled.out" || true
    diff "$work/bare.err" "$work/profiled.err" || true
    status=1
  fi
}

compare import "$python" -c 'import torch; print(torch.__version__)'
compare train "$python" "$work/train.py"
sed 's/^/           /' "$work/profiled.out"
grep -i 'driver\|GPU' "$work/train.said" | sed 's/^/           /' || true
"$tbprof" check "$work/logs" | sed 's/^/           /' || true

"$python" - "$repeat" "$tbprof" "$work" "$python" <<'PYTHON'
import statistics
import subprocess
import sys
import time

repeat, tbprof, work, python = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
code = (
    "import time; wall, cpu = time.perf_counter(), time.process_time(); import torch; "
    "print(time.perf_counter() - wall, time.process_time() - cpu)"
)
pairs = []
for _ in range(repeat):
    times = []
    for before in ([], [tbprof, "run", "--quiet", f"--logdir={work}/timed", "--"]):
        said = subprocess.run([*before, python, "-c", code], capture_output=True, text=True, check=True).stdout
        times.append([float(number) for number in said.strip().splitlines()[-1].split()])
    pairs.append(times)
for which, name in enumerate(("wall time", "CPU time")):
    ratios = [profiled[which] / bare[which] for bare, profiled in pairs]
    print(
        f"import     {name} {statistics.median(bare[which] for bare, _ in pairs):.2f} s bare; profiled / bare: median "
        f"{statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f} of {repeat} pairs"
    )
PYTHON
exit $status
