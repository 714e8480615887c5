#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the fuzzers of tests/fuzz, built with Clang, AddressSanitizer and UBSan in build-fuzz.
#
#   scripts/fuzz.sh [--seconds N] [--seed N] [--tbprof PATH] [TARGET...]
#
#   --seconds N    how long each target runs (60)
#   --seed N       the same changes to the same inputs each time; else other ones
#   --tbprof PATH  the program that makes the seeds: small spools of real runs (build/bin/tbprof), and of a simulated
#                  training, and of programs with PyTorch's and TensorFlow's libraries, where its build tree has them
#   TARGET         segment, spool, options, ...: a file tests/fuzz/TARGET_fuzzer.cc; default: all
#
# What a target has learned stays in build-fuzz/corpus/TARGET for the next time. Exit status 1 with the path of the
# input that did it when a target crashes, leaks, takes a minute over one input or 2 GiB; 77 without Clang.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

DIR=$TBPROF_ROOT/build-fuzz
seconds=60
seed=0
tbprof=$TBPROF_ROOT/build/bin/tbprof
targets=()
while (($#)); do
  case $1 in
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage_error "--seconds needs a number"
      seconds=$2
      shift
      ;;
    --seed)
      [[ ${2:-} =~ ^[0-9]+$ ]] || usage_error "--seed needs a number"
      seed=$2
      shift
      ;;
    --tbprof)
      tbprof=${2:?}
      shift
      ;;
    -h | --help) usage && exit ;;
    -*) usage_error "unknown argument '$1'" ;;
    *)
      [[ -f $TBPROF_ROOT/tests/fuzz/$1_fuzzer.cc ]] || usage_error "no target '$1'"
      targets+=("$1")
      ;;
  esac
  shift
done
if ! ((${#targets[@]})); then
  for source in "$TBPROF_ROOT"/tests/fuzz/*_fuzzer.cc; do
    source=${source##*/}
    targets+=("${source%_fuzzer.cc}")
  done
fi

if ! command -v clang++ >/dev/null; then
  echo "SKIP: the fuzzers need clang"
  exit 77
fi

build() {
  if [[ ! -f $DIR/build.ninja ]]; then
    cmake -S "$TBPROF_ROOT/tests/fuzz" -B "$DIR" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang >&2
  fi
  cmake --build "$DIR" --parallel "$(jobs_here)" --target make_seeds "${targets[@]/%/_fuzzer}" >&2
}

# Spools of real runs, small enough for a fuzzer to get through them a hundred times a second.
make_seeds() {
  local scratch spool sim mode frameworks framework
  [[ -d $DIR/seeds/core_file ]] && return
  if [[ ! -x $tbprof ]]; then
    say "no $tbprof: fuzzing without real spools"
    return
  fi
  scratch=$(mktemp -d)
  ulimit -c 0
  TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/a" --wait-threshold=0 -- true || true
  TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/b" --wait-threshold=0 --malloc-interval=1KiB -- \
    /bin/sh -c 'ls / >/dev/null & wait; (sleep 0.1)' || true
  # Threads that wait for one another, and are ended in the middle of it.
  TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/c" --wait-threshold=0 -- \
    "$DEBIAN_PYTHON" -c 'import threading, time, os
lock = threading.Lock()
def work():
    for _ in range(3):
        with lock: time.sleep(0.002)
threads = [threading.Thread(target=work, name="worker%d" % i) for i in range(3)]
for t in threads: t.start()
for t in threads: t.join()
os._exit(1)' || true
  # Each block, with few times.
  TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/f" --malloc=exact -- /bin/sh -c 'ls / >/dev/null & wait' || true
  # A training on a simulated GPU, node by node and as graphs.
  sim=$(realpath "$(dirname "$tbprof")/..")/tests/sim
  if [[ -x $sim/subjects/train ]]; then
    LD_LIBRARY_PATH=$sim/cuda13 TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/d" \
      --trace=gpu --window=last=30s -- "$sim/subjects/train" 3 1000 || true
    LD_LIBRARY_PATH=$sim/cuda13 CUDASIM_CUPTI=late_ms=1,zero_times=5,unknown_kind=7 TMPDIR=$scratch \
      "$tbprof" run --quiet --keep-spool --logdir="$scratch/e" --cuda-graphs=graph -- "$sim/subjects/train" 3 1000 graph || true
    LD_LIBRARY_PATH=$sim/cuda13 TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/g" \
      --trace=annotation,gpu -- "$sim/subjects/graph_ranges" 3 || true
  fi
  # PyTorch's libraries in a package of a release that is observed.
  if [[ -x $sim/../programs/torch && -d $sim/torch/plain ]]; then
    mkdir -p "$scratch/torch/lib"
    cp "$sim"/torch/plain/*.so "$scratch/torch/lib"
    echo "__version__ = '2.13.0'" >"$scratch/torch/version.py"
    for mode in ops "storm 30 6 100" "memory 2" shapes; do
      # shellcheck disable=SC2086  # words of a mode
      TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/torch-${mode%% *}" --trace=annotation,gpu --torch-shapes -- \
        "$sim/../programs/torch" "$scratch/torch" $mode >/dev/null || true
    done
  fi
  if [[ -x $sim/../programs/executes && -f $sim/tensorflow/libpywrap.so ]]; then
    TMPDIR=$scratch "$tbprof" run --quiet --keep-spool --logdir="$scratch/tensorflow" --trace=annotation -- \
      "$sim/../programs/executes" "$sim/tensorflow/libpywrap.so" 6 >/dev/null || true
  fi
  for spool in "$scratch"/*/.tbprof/*.spool; do
    [[ -f $spool ]] || continue
    "$DIR/make_seeds" "$spool" "$DIR/seeds.new" >>"$scratch/frameworks" || fail "cannot make seeds from $spool"
  done
  frameworks=()
  if [[ -d $scratch/torch ]]; then
    frameworks+=("PyTorch's operations" "PyTorch's backward nodes" "PyTorch's ranges" "memory of tensors")
  fi
  if [[ -d $scratch/tensorflow ]]; then frameworks+=(TensorFlow); fi
  for framework in "${frameworks[@]}"; do
    grep -qxF "$framework" "$scratch/frameworks" || fail "no seed of the spool's fuzzer has $framework"
  done
  rm -rf "$scratch"
  if [[ -d $DIR/seeds.new ]]; then
    rm -rf "$DIR/seeds"
    mv -T "$DIR/seeds.new" "$DIR/seeds"
  fi
}

mkdir -p "$DIR"
{
  # Two of us at once, as under ctest -j, build one after the other.
  flock 9
  build
  make_seeds
} 9>"$DIR/.lock"

scratch=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$scratch"' EXIT

status=0
for target in "${targets[@]}"; do
  mkdir -p "$DIR/corpus/$target" "$DIR/findings"
  directories=("$DIR/corpus/$target")
  for seeds in "$DIR/seeds/$target" "$TBPROF_ROOT/tests/fuzz/seeds/$target"; do
    if [[ -d $seeds ]]; then directories+=("$seeds"); fi
  done
  dictionary=()
  if [[ -f $TBPROF_ROOT/tests/fuzz/$target.dict ]]; then
    dictionary=("-dict=$TBPROF_ROOT/tests/fuzz/$target.dict")
  fi
  log=$DIR/$target.log
  say "$target: $seconds s"
  # Inputs of up to 128 KiB: a chunk with its frame.
  if ! TMPDIR=$scratch ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1 \
    "$DIR/${target}_fuzzer" -max_total_time="$seconds" -seed="$seed" -max_len=131072 -timeout=60 -rss_limit_mb=2048 \
    -malloc_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$DIR/findings/$target-" "${dictionary[@]}" \
    "${directories[@]}" >"$log" 2>&1 </dev/null; then
    status=1
    grep -aE 'ERROR: |runtime error|SUMMARY' "$log" | head -n 5 >&2
    finding=$(grep -aoE "$DIR/findings/[^ ]+" "$log" | tail -n 1)
    say "$target: FAILED; the input: ${finding:-none}; the log: $log"
    say "$target: again with $DIR/${target}_fuzzer ${finding:-INPUT}"
  else
    say "$target: $(awk '/stat::number_of_executed_units/ { print $2 }' "$log") inputs, none found"
  fi
done
exit $status
