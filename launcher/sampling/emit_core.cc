// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/emit_core.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "launcher/sampling/emit_python.h"
#include "launcher/sampling/emit_rows.h"
#include "launcher/sampling/stack_trie.h"

namespace tbprof {
namespace {

constexpr size_t kLongestPath = 4096;
constexpr size_t kLongestReason = 500;

uint32_t CoreNumber(uint32_t number) { return number == 0 ? 0 : number + kCoreNumbers; }

template <typename T>
void Put(const T& value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

void EmitCore(const EmitFrame& emit, const SampledProcess& process, CoreFact fact, const std::string& path,
              const std::string& reason, const CoreStacks& stacks) {
  EmitPythonCodes(emit, process, stacks.python_minor, stacks.codes, kCoreNumbers);
  StackTrie python, native;
  std::string rows, texts;
  texts.append(path, 0, kLongestPath).append(reason, 0, kLongestReason);
  for (const CoreStacks::Thread& thread : stacks.threads) {
    CoreThread row = {};
    row.tid = thread.tid;
    for (auto frame = thread.python.rbegin(); frame != thread.python.rend(); ++frame) {
      row.python_node = python.Find(row.python_node, frame->code, frame->instruction);
      if (row.python_node == 0) break;
    }
    row.python_node = CoreNumber(row.python_node);
    if (!thread.native.empty()) row.native_node = CoreNumber(FindNativeNode(thread.native, thread.complete, &native));
    Put(row, &rows);
    if (!thread.name.empty()) EmitPythonName(emit, process, thread.tid, thread.name);
  }
  std::vector<PythonNode> python_nodes = python.TakeNew();
  for (PythonNode& node : python_nodes) {
    node = {CoreNumber(node.node), CoreNumber(node.parent), CoreNumber(node.code), node.instruction};
  }
  std::vector<NativeNode> native_nodes = TakeNewNativeNodes(&native);
  for (NativeNode& node : native_nodes) node = {CoreNumber(node.node), CoreNumber(node.parent), node.address};
  EmitRows<PythonStacksFact>(emit, FrameType::kPythonStacks, process, python_nodes);
  EmitRows<NativeStacksFact>(emit, FrameType::kNativeStacks, process, native_nodes);
  for (const Module& module : stacks.modules) {
    const std::string_view module_path = std::string_view(module.path).substr(0, kLongestPath);
    CoreModule row = {};
    row.start = module.start;
    row.end = module.end;
    row.load_bias = module.load_bias;
    row.path_bytes = static_cast<uint32_t>(module_path.size());
    row.build_id_bytes = static_cast<uint32_t>(module.build_id.size());
    Put(row, &rows);
    texts.append(module_path).append(module.build_id);
  }
  fact.threads = static_cast<uint32_t>(stacks.threads.size());
  fact.thread_count = std::max<uint64_t>(stacks.thread_count, stacks.threads.size());
  fact.modules = static_cast<uint32_t>(stacks.modules.size());
  fact.path_bytes = static_cast<uint32_t>(std::min(path.size(), kLongestPath));
  fact.reason_bytes = static_cast<uint32_t>(std::min(reason.size(), kLongestReason));
  std::string payload;
  Put(fact, &payload);
  payload += rows;
  payload += texts;
  emit(FrameType::kCore, process.segment, payload.data(), payload.size());
}

}  // namespace tbprof
