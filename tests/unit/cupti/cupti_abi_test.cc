// SPDX-License-Identifier: Apache-2.0
// Compares cupti/cupti_abi.h with NVIDIA's headers: every version of each record has the prefix declared there.
#include "cupti/cupti_abi.h"

#include <gtest/gtest.h>

#include "wire/records.h"

#if __has_include(<cupti.h>)
#include <cuda.h>
#include <cupti.h>

namespace tbprof::cupti {
namespace {

#define SAME(theirs, field, ours, member)                                                              \
  EXPECT_EQ(offsetof(theirs, field), offsetof(ours, member)) << #theirs "." #field;                    \
  EXPECT_EQ(sizeof(static_cast<theirs*>(nullptr)->field), sizeof(static_cast<ours*>(nullptr)->member)) \
      << #theirs "." #field

template <typename Theirs>
void ExpectKernel() {
  SAME(Theirs, kind, Kernel, kind);
  SAME(Theirs, registersPerThread, Kernel, registers_per_thread);
  SAME(Theirs, start, Kernel, start);
  SAME(Theirs, end, Kernel, end);
  SAME(Theirs, deviceId, Kernel, device);
  SAME(Theirs, contextId, Kernel, context);
  SAME(Theirs, streamId, Kernel, stream);
  SAME(Theirs, gridX, Kernel, grid_x);
  SAME(Theirs, gridZ, Kernel, grid_z);
  SAME(Theirs, blockX, Kernel, block_x);
  SAME(Theirs, blockZ, Kernel, block_z);
  SAME(Theirs, staticSharedMemory, Kernel, static_shared_memory);
  SAME(Theirs, dynamicSharedMemory, Kernel, dynamic_shared_memory);
  SAME(Theirs, localMemoryPerThread, Kernel, local_memory_per_thread);
  SAME(Theirs, correlationId, Kernel, correlation);
  SAME(Theirs, name, Kernel, name);
  SAME(Theirs, launchType, Kernel, launch_type);
}
template <typename Theirs>
void ExpectKernelGraph() {
  ExpectKernel<Theirs>();
  SAME(Theirs, graphNodeId, Kernel, graph_node);
  SAME(Theirs, graphId, Kernel, graph);
}
template <typename Theirs>
void ExpectKernelCluster() {
  ExpectKernelGraph<Theirs>();
  SAME(Theirs, clusterX, Kernel, cluster_x);
  SAME(Theirs, clusterZ, Kernel, cluster_z);
}

TEST(CuptiAbi, GraphCallbacks_EqualTheHeaders) {
  SAME(CUpti_ResourceData, context, ResourceData, context);
  SAME(CUpti_ResourceData, resourceDescriptor, ResourceData, descriptor);
  SAME(CUpti_GraphData, node, GraphData, node);
  SAME(CUpti_GraphData, originalNode, GraphData, original_node);
  SAME(CUpti_GraphData, nodeType, GraphData, node_type);
}

TEST(CuptiAbi, Kernels_EqualTheHeaders) {
  ExpectKernel<CUpti_ActivityKernel4>();
  ExpectKernelGraph<CUpti_ActivityKernel5>();
  ExpectKernelGraph<CUpti_ActivityKernel6>();
  ExpectKernelGraph<CUpti_ActivityKernel7>();
  ExpectKernelCluster<CUpti_ActivityKernel8>();
  ExpectKernelCluster<CUpti_ActivityKernel9>();
  ExpectKernelCluster<CUpti_ActivityKernel10>();
}

template <typename Theirs, typename Ours>
void ExpectTransfer() {
  SAME(Theirs, bytes, Ours, bytes);
  SAME(Theirs, start, Ours, start);
  SAME(Theirs, end, Ours, end);
  SAME(Theirs, deviceId, Ours, device);
  SAME(Theirs, contextId, Ours, context);
  SAME(Theirs, streamId, Ours, stream);
  SAME(Theirs, correlationId, Ours, correlation);
  SAME(Theirs, flags, Ours, flags);
  SAME(Theirs, graphNodeId, Ours, graph_node);
}

TEST(CuptiAbi, CopiesAndSets_EqualTheHeaders) {
  ExpectTransfer<CUpti_ActivityMemcpy3, Memcpy>();
  ExpectTransfer<CUpti_ActivityMemcpy4, Memcpy>();
  ExpectTransfer<CUpti_ActivityMemcpy5, Memcpy>();
  ExpectTransfer<CUpti_ActivityMemcpy6, Memcpy>();
  SAME(CUpti_ActivityMemcpy6, graphId, Memcpy, graph);
  SAME(CUpti_ActivityMemcpy6, copyKind, Memcpy, copy_kind);
  SAME(CUpti_ActivityMemcpy6, srcKind, Memcpy, source_kind);
  SAME(CUpti_ActivityMemcpy6, dstKind, Memcpy, destination_kind);
  ExpectTransfer<CUpti_ActivityMemcpyPtoP4, MemcpyPeer>();
  SAME(CUpti_ActivityMemcpyPtoP4, srcDeviceId, MemcpyPeer, source_device);
  SAME(CUpti_ActivityMemcpyPtoP4, dstDeviceId, MemcpyPeer, destination_device);
  SAME(CUpti_ActivityMemcpyPtoP4, graphId, MemcpyPeer, graph);
  ExpectTransfer<CUpti_ActivityMemset2, Memset>();
  ExpectTransfer<CUpti_ActivityMemset3, Memset>();
  ExpectTransfer<CUpti_ActivityMemset4, Memset>();
  SAME(CUpti_ActivityMemset4, value, Memset, value);
  SAME(CUpti_ActivityMemset4, memoryKind, Memset, memory_kind);
  SAME(CUpti_ActivityMemset4, graphId, Memset, graph);
}

TEST(CuptiAbi, Calls_EqualTheHeaders) {
  SAME(CUpti_ActivityAPI, cbid, Api, callback);
  SAME(CUpti_ActivityAPI, start, Api, start);
  SAME(CUpti_ActivityAPI, end, Api, end);
  SAME(CUpti_ActivityAPI, threadId, Api, thread);
  SAME(CUpti_ActivityAPI, correlationId, Api, correlation);
  SAME(CUpti_ActivityAPI, returnValue, Api, result);
  EXPECT_EQ(sizeof(CUpti_ActivityAPI), sizeof(Api));
}

TEST(CuptiAbi, OtherRecords_EqualTheHeaders) {
  SAME(CUpti_ActivitySynchronization2, type, Synchronization, type);
  SAME(CUpti_ActivitySynchronization2, start, Synchronization, start);
  SAME(CUpti_ActivitySynchronization2, correlationId, Synchronization, correlation);
  SAME(CUpti_ActivitySynchronization2, streamId, Synchronization, stream);
  SAME(CUpti_ActivitySynchronization2, cudaEventId, Synchronization, event);
  SAME(CUpti_ActivityOverhead3, overheadKind, Overhead, overhead_kind);
  SAME(CUpti_ActivityOverhead3, objectKind, Overhead, object_kind);
  SAME(CUpti_ActivityOverhead3, start, Overhead, start);
  SAME(CUpti_ActivityOverhead3, end, Overhead, end);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, objectId.pt.threadId), offsetof(Overhead, object) + 4);
  SAME(CUpti_ActivityGraphTrace2, correlationId, GraphTrace, correlation);
  SAME(CUpti_ActivityGraphTrace2, graphId, GraphTrace, graph);
  SAME(CUpti_ActivityGraphTrace2, streamId, GraphTrace, stream);
  SAME(CUpti_ActivityMemory4, memoryOperationType, Memory, operation);
  SAME(CUpti_ActivityMemory4, address, Memory, address);
  SAME(CUpti_ActivityMemory4, bytes, Memory, bytes);
  SAME(CUpti_ActivityMemory4, timestamp, Memory, timestamp);
  SAME(CUpti_ActivityMemory4, deviceId, Memory, device);
  SAME(CUpti_ActivityMemory4, streamId, Memory, stream);
  SAME(CUpti_ActivityMemory4, isAsync, Memory, is_asynchronous);
#define UNIFIED(field, member)                                             \
  SAME(CUpti_ActivityUnifiedMemoryCounter2, field, UnifiedMemory, member); \
  SAME(CUpti_ActivityUnifiedMemoryCounter3, field, UnifiedMemory, member)
  UNIFIED(counterKind, counter);
  UNIFIED(value, value);
  UNIFIED(start, start);
  UNIFIED(end, end);
  UNIFIED(address, address);
  UNIFIED(srcId, source);
  UNIFIED(dstId, destination);
  UNIFIED(processId, process);
  UNIFIED(flags, flags);
#undef UNIFIED
  EXPECT_EQ(sizeof(CUpti_ActivityUnifiedMemoryCounter2), sizeof(UnifiedMemory));
  SAME(CUpti_ActivityUnifiedMemoryCounterConfig, scope, UnifiedMemoryConfig, scope);
  SAME(CUpti_ActivityUnifiedMemoryCounterConfig, kind, UnifiedMemoryConfig, counter);
  SAME(CUpti_ActivityUnifiedMemoryCounterConfig, deviceId, UnifiedMemoryConfig, device);
  SAME(CUpti_ActivityUnifiedMemoryCounterConfig, enable, UnifiedMemoryConfig, enable);
  EXPECT_EQ(sizeof(CUpti_ActivityUnifiedMemoryCounterConfig), sizeof(UnifiedMemoryConfig));
  SAME(CUpti_ActivityDevice5, globalMemorySize, Device, memory_bytes);
  SAME(CUpti_ActivityDevice5, numMultiprocessors, Device, multiprocessors);
  SAME(CUpti_ActivityDevice5, maxThreadsPerBlock, Device, threads_per_block);
  SAME(CUpti_ActivityDevice5, computeCapabilityMajor, Device, compute_major);
  SAME(CUpti_ActivityDevice5, id, Device, id);
  SAME(CUpti_ActivityDevice5, uuid, Device, uuid);
  SAME(CUpti_ActivityDevice5, name, Device, name);
  SAME(CUpti_ActivityDevice5, isMigEnabled, Device, is_mig);
  SAME(CUpti_ActivityContext3, contextId, Context, context);
  SAME(CUpti_ActivityContext3, nullStreamId, Context, null_stream);
  SAME(CUpti_ActivityStream, streamId, Stream, stream);
  SAME(CUpti_ActivityStream, flag, Stream, flag);
  SAME(CUpti_ActivityName, objectKind, Name, object_kind);
  SAME(CUpti_ActivityName, name, Name, name);
  EXPECT_EQ(offsetof(CUpti_ActivityName, objectId.dcs.streamId), offsetof(Name, object) + 8);
}

TEST(CuptiAbi, Numbers_EqualTheHeaders) {
  EXPECT_EQ(static_cast<uint32_t>(kActivityConcurrentKernel),
            static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  EXPECT_EQ(static_cast<uint32_t>(kActivityMemcpy), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMCPY));
  EXPECT_EQ(static_cast<uint32_t>(kActivityMemcpy2), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMCPY2));
  EXPECT_EQ(static_cast<uint32_t>(kActivityMemset), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMSET));
  EXPECT_EQ(static_cast<uint32_t>(kActivityRuntime), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_RUNTIME));
  EXPECT_EQ(static_cast<uint32_t>(kActivityDriver), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_DRIVER));
  EXPECT_EQ(static_cast<uint32_t>(kActivityDevice), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_DEVICE));
  EXPECT_EQ(static_cast<uint32_t>(kActivityContext), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_CONTEXT));
  EXPECT_EQ(static_cast<uint32_t>(kActivityStream), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_STREAM));
  EXPECT_EQ(static_cast<uint32_t>(kActivityName), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_NAME));
  EXPECT_EQ(static_cast<uint32_t>(kActivityOverhead), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_OVERHEAD));
  EXPECT_EQ(static_cast<uint32_t>(kActivitySynchronization),
            static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
  EXPECT_EQ(static_cast<uint32_t>(kActivityMemory2), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMORY2));
  EXPECT_EQ(static_cast<uint32_t>(kActivityGraphTrace), static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
  EXPECT_EQ(kDomainDriver, static_cast<uint32_t>(CUPTI_CB_DOMAIN_DRIVER_API));
  EXPECT_EQ(kDomainRuntime, static_cast<uint32_t>(CUPTI_CB_DOMAIN_RUNTIME_API));
  EXPECT_EQ(kDomainResource, static_cast<uint32_t>(CUPTI_CB_DOMAIN_RESOURCE));
  EXPECT_EQ(kResourceGraphNodeCreated, static_cast<uint32_t>(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED));
  EXPECT_EQ(kResourceGraphNodeCloned, static_cast<uint32_t>(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED));
  EXPECT_EQ(kNodeKernel, static_cast<uint32_t>(CU_GRAPH_NODE_TYPE_KERNEL));
  EXPECT_EQ(kAttributeZeroedOut, static_cast<uint32_t>(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER));
  EXPECT_EQ(kThreadIdSystem, static_cast<uint32_t>(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  EXPECT_EQ(kFlushForced, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  EXPECT_EQ(static_cast<uint32_t>(kActivityUnifiedMemory),
            static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
  EXPECT_EQ(kUnifiedOfAllDevices,
            static_cast<uint32_t>(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES));
  EXPECT_EQ(kUnifiedOnHost, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_THRASHING_IN_CPU));
  EXPECT_EQ(kUnifiedOnHost, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_THROTTLING_IN_CPU));
#define COUNTER(ours, theirs)                       \
  EXPECT_EQ(static_cast<int>(GpuUnifiedKind::ours), \
            static_cast<int>(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_##theirs))
  COUNTER(kToDevice, BYTES_TRANSFER_HTOD);
  COUNTER(kToHost, BYTES_TRANSFER_DTOH);
  COUNTER(kHostFault, CPU_PAGE_FAULT_COUNT);
  COUNTER(kDeviceFault, GPU_PAGE_FAULT);
  COUNTER(kThrashing, THRASHING);
  COUNTER(kThrottling, THROTTLING);
  COUNTER(kRemoteMap, REMOTE_MAP);
  COUNTER(kBetweenDevices, BYTES_TRANSFER_DTOD);
#undef COUNTER
  EXPECT_EQ(kErrorInvalidParameter, static_cast<Result>(CUPTI_ERROR_INVALID_PARAMETER));
  EXPECT_EQ(kErrorNotSupported, static_cast<Result>(CUPTI_ERROR_NOT_SUPPORTED));
  EXPECT_EQ(kErrorNotInitialized, static_cast<Result>(CUPTI_ERROR_NOT_INITIALIZED));
  EXPECT_EQ(kErrorMultipleSubscribers, static_cast<Result>(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
  EXPECT_EQ(kErrorInsufficientPrivileges, static_cast<Result>(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES));
  EXPECT_EQ(kObjectThread, static_cast<uint32_t>(CUPTI_ACTIVITY_OBJECT_THREAD));
  EXPECT_EQ(kObjectStream, static_cast<uint32_t>(CUPTI_ACTIVITY_OBJECT_STREAM));
}

}  // namespace
}  // namespace tbprof::cupti
#else
TEST(CuptiAbi, NoHeaders_IsSkipped) { GTEST_SKIP() << "no CUPTI headers on this machine"; }
#endif
