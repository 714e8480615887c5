#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs tbprof with releases of PyTorch, each in a virtual environment that is removed again, and says which are observed
# as they must be: what may stand in kBuilds of preload/torch_build.cc.
#
#   scripts/torch_builds.sh [--offsets] VERSION...
#
#   --offsets   print instead where the members of at::RecordFunction and of c10::TensorImpl lie, by the headers of the
#               wheel: for a new row
#
# Needs build/bin/tbprof, gigabytes of disk for the time of a release, and packages from PyPI. Exit status 0: all are.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

offsets=
if [[ ${1-} == --offsets ]]; then
  offsets=1
  shift
fi
(($#)) || usage_error "no version"

PYTHON=${PYTHON:-python3}
TBPROF=${TBPROF:-build/bin/tbprof}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

print_offsets() {
  "$PYTHON" -m pip download -q --no-deps -d "$work/wheel" "torch==$1" > "$work/log" 2>&1 || return
  (cd "$work" && unzip -q -o wheel/torch-*.whl 'torch/include/*' 'torch/lib/libtorch_cpu.so' 'torch/version.py')
  local new
  new=$(nm -D --defined-only "$work/torch/lib/libtorch_cpu.so" | grep -c _ZN2at11show_configB5cxx11Ev) || true
  cat > "$work/offsets.cc" << 'EOF'
#include <any>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>
#define private public
#define protected public
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#ifdef POLICY
// In a byte of its own, 6 behind the type, its third and fourth bit.
unsigned Policy(c10::TensorImpl* tensor) { return tensor->sizes_strides_policy_; }
#else
using at::RecordFunction;
// Behind these what preload/torch_build.cc and torch_shapes.cc have as constants: 8, 16; 8, 1; 96, 104.
template <size_t callback, size_t sequence, size_t forward_thread, size_t thread, size_t sizes, size_t inputs,
          size_t asynchronous, size_t tag, size_t tensor, size_t elements, size_t type>
struct Offsets;
constexpr size_t sequence = offsetof(RecordFunction, sequence_nr_), forward = offsetof(RecordFunction, fwd_thread_id_),
                 sizes = offsetof(c10::TensorImpl, sizes_and_strides_);
Offsets<sizeof(at::RecordFunctionCallback), sequence, forward,
        offsetof(RecordFunction, step_callbacks_) + offsetof(at::StepCallbacks, thread_id_), sizes,
        offsetof(RecordFunction, inputs_) - sequence, offsetof(RecordFunction, is_async_) - forward,
        offsetof(c10::IValue, tag), static_cast<size_t>(c10::IValue::Tag::Tensor),
        offsetof(c10::TensorImpl, numel_) - sizes, offsetof(c10::TensorImpl, data_type_) - sizes>
    offsets;
#endif
EOF
  # The compiler's complaint names the numbers.
  local said
  said=$(g++ -std=c++20 -w -fpermissive -D_GLIBCXX_USE_CXX11_ABI="$new" -I"$work/torch/include" -fsyntax-only \
    "$work/offsets.cc" 2>&1) || true
  [[ $said =~ Offsets\<[0-9,\ ]*\> ]] || { echo "$said" > "$work/log"; return 1; }
  local policy offsets=${BASH_REMATCH[0]}
  policy=$(g++ -DPOLICY -std=c++20 -O1 -w -fpermissive -D_GLIBCXX_USE_CXX11_ABI="$new" -I"$work/torch/include" -S -o - \
    "$work/offsets.cc" | sed -n '/^_Z6Policy/,/ret/p' | grep -E '\s(mov|shr|and)' | tr -s '\t\n' ' ')
  echo "$1: $offsets, policy$policy, strings $([[ $new == 1 ]] && echo new || echo old)"
}

run() {
  "$PYTHON" -m venv "$work/venv" &&
    "$work/venv/bin/pip" install -q "torch==$1" 'numpy<2' > "$work/log" 2>&1 || return
  local bare ours
  bare=$("$work/venv/bin/python" tests/torch_builds/training.py 2> "$work/log") || return
  ours=$("$TBPROF" run --torch=all --torch-shapes --logdir="$work/logs" -- "$work/venv/bin/python" \
    tests/torch_builds/training.py 2> "$work/log") || return
  [[ $bare == "$ours" ]] || { echo "not so: the same output, $bare and $ours"; return 1; }
  python3 tests/torch_builds/check.py "$work"/logs/plugins/profile/*/*.xplane.pb || return
  echo "$1: observed ($bare)"
}

for version; do
  rm -rf "${work:?}"/*
  if [[ $offsets ]]; then
    print_offsets "$version"
  else
    run "$version"
  fi || { echo "$version: FAILED"; tail -5 "$work/log"; status=1; }
done
exit $status
