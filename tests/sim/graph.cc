// SPDX-License-Identifier: Apache-2.0
//
// Graphs: nodes added one by one or captured from streams, executable copies of them, and when their nodes run.
#include <algorithm>

#include "tests/sim/engine.h"

namespace tbprof::sim {
namespace {

// From the end of a node to the start of the next within one launch of a graph.
constexpr int64_t kNodeGapNs = 300;

CUgraphNodeType TypeOf(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case WorkKind::kMemcpy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case WorkKind::kMemset:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case WorkKind::kHostFunction:
      return CU_GRAPH_NODE_TYPE_HOST;
    default:
      return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

}  // namespace

void ReportCloned(CUgraphNode node, CUgraphNode original) {
  ResourceEvent event{};
  event.what = Resource::kNodeCloned;
  event.graph = node->graph;
  event.node = node;
  event.original_node = original;
  event.node_type = node->type;
  Report(event);
}

CUgraph NewGraph() {
  auto* graph = new CUgraph_st{};
  graph->magic = Magic::kGraph;
  graph->id = engine().next_graph.fetch_add(1);
  ResourceEvent event{};
  event.what = Resource::kGraphCreated;
  event.graph = graph;
  Report(event);
  return graph;
}

CUgraphNode AddNode(CUgraph graph, CUgraphNodeType type, const Op& op, const CUgraphNode* after, size_t count) {
  auto* node = new CUgraphNode_st{};
  node->magic = Magic::kNode;
  node->graph = graph;
  node->type = type;
  node->op = op;
  for (size_t i = 0; i < count; ++i) node->after.push_back(after[i]);
  {
    Guard guard(graph->lock);
    graph->nodes.push_back(node);
    node->id = (static_cast<uint64_t>(graph->id) << 32) | graph->nodes.size();
  }
  ResourceEvent event{};
  event.what = Resource::kNodeCreated;
  event.graph = graph;
  event.node = node;
  event.node_type = type;
  Report(event);
  return node;
}

CUresult CaptureOp(CUstream stream, Op& op) {
  Capture* capture = stream->capture.load();
  if (op.work.kind == WorkKind::kEventWait) {
    if (op.event->capture == nullptr) {
      if (capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (capture == nullptr) {
      capture = op.event->capture;
      stream->capture.store(capture);
      stream->capture_last.clear();
      ++capture->streams;
      stream->context->captures.fetch_add(1);
    } else if (capture != op.event->capture) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    for (CUgraphNode node : op.event->capture_nodes) {
      if (std::find(stream->capture_last.begin(), stream->capture_last.end(), node) == stream->capture_last.end()) {
        stream->capture_last.push_back(node);
      }
    }
    return CUDA_SUCCESS;
  }
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (op.work.kind == WorkKind::kEventRecord) {
    op.event->capture = capture;
    op.event->capture_nodes = stream->capture_last;
    return CUDA_SUCCESS;
  }
  if (op.work.kind == WorkKind::kGraph || op.work.kind == WorkKind::kFree) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  CUgraphNode node =
      AddNode(capture->graph, TypeOf(op.work.kind), op, stream->capture_last.data(), stream->capture_last.size());
  stream->capture_last.assign(1, node);
  return CUDA_SUCCESS;
}

CUresult EndCapture(CUstream stream, CUgraph* graph) {
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  // Every stream that was drawn in must have been joined: each of its last nodes has a successor or is ours.
  bool unjoined = false;
  std::vector<CUstream> streams;
  {
    Guard guard(stream->context->lock);
    streams = stream->context->streams;
  }
  for (CUstream other : streams) {
    if (other == stream || other->capture.load() != capture) continue;
    for (CUgraphNode last : other->capture_last) {
      bool followed =
          std::find(stream->capture_last.begin(), stream->capture_last.end(), last) != stream->capture_last.end();
      for (CUgraphNode node : capture->graph->nodes) {
        followed = followed || std::find(node->after.begin(), node->after.end(), last) != node->after.end();
      }
      unjoined = unjoined || !followed;
    }
    other->capture.store(nullptr);
    other->capture_last.clear();
    stream->context->captures.fetch_sub(1);
  }
  stream->capture.store(nullptr);
  stream->capture_last.clear();
  stream->context->captures.fetch_sub(1);
  bool invalid = capture->invalid;
  if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
    engine().global_captures.fetch_sub(1);
    invalid |= engine().captures_broken.load() != capture->broken_before;
  }
  *graph = invalid || unjoined ? nullptr : capture->graph;
  // Events may still point to it: it stays.
  if (invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS;
}

// Nullptr when the edges form a circle.
CUgraphExec Instantiate(CUgraph graph, unsigned long long flags) {
  auto* exec = new CUgraphExec_st{};
  exec->magic = Magic::kExec;
  exec->id = engine().next_graph.fetch_add(1);
  exec->flags = flags;
  std::map<CUgraphNode, uint32_t> placed;
  {
    Guard guard(graph->lock);
    bool moved = true;
    while (placed.size() < graph->nodes.size() && moved) {
      moved = false;
      for (CUgraphNode node : graph->nodes) {
        if (placed.count(node) != 0) continue;
        const bool ready = std::all_of(node->after.begin(), node->after.end(),
                                       [&placed](CUgraphNode before) { return placed.count(before) != 0; });
        if (!ready) continue;
        CUgraphExec_st::Step step{
            node->op, node->type, (static_cast<uint64_t>(exec->id) << 32) | (node->id & 0xffffffff), {}, 0};
        for (CUgraphNode before : node->after) step.after.push_back(placed[before]);
        placed[node] = static_cast<uint32_t>(exec->steps.size());
        exec->has_host_function = exec->has_host_function || node->type == CU_GRAPH_NODE_TYPE_HOST;
        exec->steps.push_back(std::move(step));
        moved = true;
      }
    }
    if (placed.size() < graph->nodes.size()) {
      exec->magic = Magic::kDead;
      return nullptr;
    }
  }
  if (Wants(kWantsResources)) {
    for (const auto& [original, place] : placed) {
      CUgraphNode_st clone{};
      clone.magic = Magic::kNode;
      clone.id = exec->steps[place].id;
      clone.graph = graph;
      clone.type = original->type;
      ResourceEvent created{};
      created.what = Resource::kNodeCreated;
      created.graph = graph;
      created.node = &clone;
      created.node_type = clone.type;
      Report(created);
      ReportCloned(&clone, original);
    }
  }
  ResourceEvent event{};
  event.what = Resource::kExecCreated;
  event.graph = graph;
  event.exec = exec;
  Report(event);
  return exec;
}

void ResolveGraph(CUstream stream, Op& op, int64_t begin, std::vector<Work>* nodes) {
  CUgraphExec exec = op.exec;
  const bool report = Wants(kWantsWork) && !Wants(kWantsGraphTrace);
  Guard guard(exec->lock);
  int64_t end = begin;
  for (auto& step : exec->steps) {
    int64_t start = begin;
    for (const uint32_t before : step.after) start = std::max(start, exec->steps[before].end + kNodeGapNs);
    Work work = step.op.work;
    work.queued = op.work.queued;
    work.submitted = op.work.submitted;
    work.device = op.work.device;
    work.context = op.work.context;
    work.stream = op.work.stream;
    work.channel = op.work.channel;
    work.correlation = op.work.correlation;
    work.graph = exec->id;
    work.graph_node = step.id;
    int64_t length = step.op.duration;
    if (work.kind == WorkKind::kMemset) length = 1000 + static_cast<int64_t>(work.set.bytes) / 3000;
    if (work.kind == WorkKind::kMemcpy) RunCopy(step.op.copy);
    if (work.kind == WorkKind::kMemset) {
      const auto& set = step.op.set;
      for (size_t y = 0; y < set.height; ++y) {
        for (size_t x = 0; x < set.width; ++x) {
          __builtin_memcpy(set.destination + y * set.pitch + x * set.element, &work.set.value, set.element);
        }
      }
    }
    if (work.kind == WorkKind::kKernel) {
      work.kernel.grid_id = engine().next_grid.fetch_add(1, std::memory_order_relaxed);
      if (step.op.fault != CUDA_SUCCESS) {
        int none = 0;
        stream->context->fault_at.store(start + length);
        stream->context->fault_code.compare_exchange_strong(none, step.op.fault);
      }
    }
    work.start = start;
    work.end = step.end = start + length;
    end = std::max(end, work.end);
    const bool visible =
        work.kind == WorkKind::kKernel || work.kind == WorkKind::kMemcpy || work.kind == WorkKind::kMemset;
    if (report && visible) nodes->push_back(work);
  }
  op.work.start = begin;
  op.work.end = end;
  op.work.graph = exec->id;
}

}  // namespace tbprof::sim
