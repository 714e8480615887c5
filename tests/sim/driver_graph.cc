// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on graphs.
#include <stdio.h>

#include <algorithm>

#include "tests/sim/driver.h"

namespace tbprof::sim {
namespace {

CUresult Add(CUgraphNode* out, CUgraph graph, CUgraphNodeType type, const Op& op, const CUgraphNode* after,
             size_t count) {
  SIM_TRY(Usable());
  if (out == nullptr || !Valid(graph, Magic::kGraph) || (count != 0 && after == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!Valid(after[i], Magic::kNode) || after[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  }
  *out = AddNode(graph, type, op, after, count);
  return CUDA_SUCCESS;
}

// A list in the manner of cuGraphGetNodes: with a null array only the number is returned.
CUresult GiveList(const std::vector<CUgraphNode>& all, CUgraphNode* nodes, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return CUDA_SUCCESS;
}

uint8_t KindOf(const void* address) {
  Allocation allocation{};
  return FindAllocation(address, nullptr, &allocation) ? allocation.kind : 1;
}

bool OnDevice(uint8_t kind) { return kind == 3 || kind == 5; }

}  // namespace

CUresult Driver::cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  SIM_TRY(Usable());
  if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *phGraph = NewGraph();
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D& p = *copyParams;
  if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY || p.srcY != 0 || p.srcZ != 0 ||
      p.dstY != 0 || p.dstZ != 0 || p.Height > 1 || p.Depth > 1) {
    return CUDA_ERROR_NOT_SUPPORTED;  // one row is all that is simulated
  }
  Op op = NewOp(WorkKind::kMemcpy);
  op.copy = {};
  op.copy.destination =
      p.dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<char*>(p.dstHost) : reinterpret_cast<char*>(p.dstDevice);
  op.copy.source = p.srcMemoryType == CU_MEMORYTYPE_HOST ? static_cast<const char*>(p.srcHost)
                                                         : reinterpret_cast<const char*>(p.srcDevice);
  op.copy.destination += p.dstXInBytes;
  op.copy.source += p.srcXInBytes;
  op.copy.width = p.WidthInBytes;
  op.copy.height = op.copy.depth = 1;
  auto& copy = op.work.copy;
  copy.bytes = p.WidthInBytes;
  copy.count = 1;
  copy.asynchronous = true;
  copy.source = KindOf(op.copy.source);
  copy.destination = KindOf(op.copy.destination);
  if (OnDevice(copy.source)) {
    copy.kind = OnDevice(copy.destination) ? 8 : 2;
  } else {
    copy.kind = OnDevice(copy.destination) ? 1 : 9;
  }
  op.duration = CopyDuration(op.work, copy.source == 1 || copy.destination == 1);
  return Add(phGraphNode, hGraph, CU_GRAPH_NODE_TYPE_MEMCPY, op, dependencies, numDependencies);
}

CUresult Driver::cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                      CUcontext ctx) {
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS& p = *memsetParams;
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  Op op = NewOp(WorkKind::kMemset);
  op.work.set.bytes = static_cast<uint64_t>(p.width) * p.height * p.elementSize;
  op.work.set.value = p.value;
  op.work.set.memory = KindOf(reinterpret_cast<void*>(p.dst));
  op.work.set.asynchronous = true;
  op.set.destination = reinterpret_cast<char*>(p.dst);
  op.set.width = p.width;
  op.set.height = p.height;
  op.set.pitch = p.pitch;
  op.set.element = p.elementSize;
  return Add(phGraphNode, hGraph, CU_GRAPH_NODE_TYPE_MEMSET, op, dependencies, numDependencies);
}

CUresult Driver::cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr || nodeParams->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Op op = NewOp(WorkKind::kHostFunction);
  op.host.function = nodeParams->fn;
  op.host.data = nodeParams->userData;
  return Add(phGraphNode, hGraph, CU_GRAPH_NODE_TYPE_HOST, op, dependencies, numDependencies);
}

CUresult Driver::cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies) {
  return Add(phGraphNode, hGraph, CU_GRAPH_NODE_TYPE_EMPTY, NewOp(WorkKind::kEmpty), dependencies, numDependencies);
}

CUresult Driver::cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                           size_t numDependencies, CUevent event) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Driver::cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                         size_t numDependencies, CUevent event) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Driver::cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData* edgeData, size_t numDependencies) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  if (edgeData != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Guard guard(hGraph->lock);
  for (size_t i = 0; i < numDependencies; ++i) {
    if (!Valid(from[i], Magic::kNode) || !Valid(to[i], Magic::kNode)) return CUDA_ERROR_INVALID_VALUE;
    to[i]->after.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  SIM_TRY(Usable());
  if (!Valid(originalGraph, Magic::kGraph) || phGraphClone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraph clone = NewGraph();
  std::map<CUgraphNode, CUgraphNode> same;
  for (CUgraphNode node : originalGraph->nodes) {
    same[node] = AddNode(clone, node->type, node->op, nullptr, 0);
    ReportCloned(same[node], node);
  }
  for (CUgraphNode node : originalGraph->nodes) {
    for (CUgraphNode before : node->after) same[node]->after.push_back(same[before]);
  }
  ResourceEvent event{};
  event.what = Resource::kGraphCloned;
  event.graph = clone;
  Report(event);
  *phGraphClone = clone;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  SIM_TRY(Usable());
  if (!Valid(hNode, Magic::kNode)) return CUDA_ERROR_INVALID_VALUE;
  *type = hNode->type;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  return GiveList(hGraph->nodes, nodes, numNodes);
}

CUresult Driver::cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> roots;
  for (CUgraphNode node : hGraph->nodes) {
    if (node->after.empty()) roots.push_back(node);
  }
  return GiveList(roots, rootNodes, numRootNodes);
}

CUresult Driver::cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                                    size_t* numEdges) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> sources, targets;
  for (CUgraphNode node : hGraph->nodes) {
    for (CUgraphNode before : node->after) {
      sources.push_back(before);
      targets.push_back(node);
    }
  }
  const size_t room = *numEdges;
  SIM_TRY(GiveList(sources, from, numEdges));
  *numEdges = room;
  if (edgeData != nullptr) {
    for (size_t i = 0; i < std::min(room, sources.size()); ++i) edgeData[i] = {};
  }
  return GiveList(targets, to, numEdges);
}

CUresult Driver::cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (!Valid(hGraph, Magic::kGraph) || phGraphExec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  CUgraphExec exec = Instantiate(hGraph, flags);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  exec->context = context;
  *phGraphExec = exec;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  const CUresult result = cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
  instantiateParams->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult Driver::cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  SIM_TRY(Usable());
  if (!Valid(hGraphExec, Magic::kExec)) return CUDA_ERROR_INVALID_VALUE;
  *flags = hGraphExec->flags;
  return CUDA_SUCCESS;
}

// The same shape with other parameters; anything else is refused, as the real one does.
CUresult Driver::cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
  SIM_TRY(Usable());
  if (!Valid(hGraphExec, Magic::kExec) || !Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExec fresh = Instantiate(hGraph, hGraphExec->flags);
  if (fresh == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Guard guard(hGraphExec->lock);
  bool same = fresh->steps.size() == hGraphExec->steps.size();
  for (size_t i = 0; same && i < fresh->steps.size(); ++i) {
    same = fresh->steps[i].type == hGraphExec->steps[i].type && fresh->steps[i].after == hGraphExec->steps[i].after;
  }
  if (resultInfo != nullptr) {
    *resultInfo = {};
    resultInfo->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  if (same) {
    for (size_t i = 0; i < fresh->steps.size(); ++i) hGraphExec->steps[i].op = fresh->steps[i].op;
  }
  fresh->magic = Magic::kDead;
  return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult Driver::cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  return Valid(hGraphExec, Magic::kExec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Driver::cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (!Valid(hGraphExec, Magic::kExec)) return CUDA_ERROR_INVALID_VALUE;
  if (!hGraphExec->has_host_function) {
    Op op = NewOp(WorkKind::kGraph);
    op.exec = hGraphExec;
    return Submit(stream, op);
  }
  // The length of a host function is unknown: its nodes run one after the other.
  for (const auto& step : hGraphExec->steps) {
    Op op = step.op;
    op.work.graph = hGraphExec->id;
    op.work.graph_node = step.id;
    SIM_TRY(Submit(stream, op));
  }
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphExecDestroy(CUgraphExec hGraphExec) {
  SIM_TRY(Usable());
  if (!Valid(hGraphExec, Magic::kExec)) return CUDA_ERROR_INVALID_VALUE;
  ResourceEvent event{};
  event.what = Resource::kExecDestroyStarting;
  event.exec = hGraphExec;
  Report(event);
  hGraphExec->magic = Magic::kDead;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphDestroy(CUgraph hGraph) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  ResourceEvent event{};
  event.what = Resource::kGraphDestroyStarting;
  event.graph = hGraph;
  Report(event);
  for (CUgraphNode node : hGraph->nodes) node->magic = Magic::kDead;
  hGraph->magic = Magic::kDead;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph)) return CUDA_ERROR_INVALID_VALUE;
  FILE* file = fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  fprintf(file, "digraph dot {\n");
  for (CUgraphNode node : hGraph->nodes) {
    for (CUgraphNode before : node->after) {
      fprintf(file, "\"%llx\" -> \"%llx\";\n", static_cast<unsigned long long>(before->id),
              static_cast<unsigned long long>(node->id));
    }
  }
  fprintf(file, "}\n");
  fclose(file);
  return CUDA_SUCCESS;
}

}  // namespace tbprof::sim
