// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on modules, functions and launches. No code is run: of an image only the names count, of a launch only
// how long it takes. A kernel whose name contains "for_nanoseconds" takes its first argument for its length; one whose
// name contains "illegal_address", "launch_failure" or "device_assert" ends with that fault.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "tests/sim/driver.h"
#include "tests/sim/modes.h"

namespace tbprof::sim {
namespace {

constexpr int kMaxThreads = 1024;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint32_t kFatbinWrapperMagic = 0x466243b1;

struct Image {
  bool text;
  std::string content;
};

// What cuModuleLoadData accepts: PTX as text, a cubin (ELF), a fat binary or its wrapper.
CUresult ReadImage(const void* image, Image* out) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint32_t magic = 0;
  memcpy(&magic, image, sizeof(magic));
  out->text = false;
  if (magic == kFatbinMagic || magic == kFatbinWrapperMagic || memcmp(image, "\177ELF", 4) == 0) return CUDA_SUCCESS;
  const char* text = static_cast<const char*>(image);
  const size_t length = strnlen(text, size_t{64} << 20);
  out->content.assign(text, length);
  out->text = true;
  if (out->content.find(".version") == std::string::npos) return CUDA_ERROR_INVALID_IMAGE;
  return CUDA_SUCCESS;
}

void FillModule(CUmodule module, const Image& image, CUcontext context) {
  module->magic = Magic::kModule;
  module->id = engine().next_module.fetch_add(1);
  module->context = context;
  module->text = image.text;
  module->image = image.content;
  ResourceEvent event{};
  event.what = Resource::kModuleLoaded;
  event.context = context;
  event.context_id = context == nullptr ? 0 : context->id;
  event.module_id = module->id;
  Report(event);
}

bool HasEntry(const CUmodule module, const char* name) {
  const std::string entry = ".entry " + std::string(name);
  for (size_t at = module->image.find(entry); at != std::string::npos; at = module->image.find(entry, at + 1)) {
    const char after = module->image[at + entry.size()];
    if (after == '(' || after == '\n' || after == ' ' || after == '\t' || after == '\r') return true;
  }
  return false;
}

// Functions live as long as the process: records point to their names.
CUresult FindFunction(CUmodule module, const char* name, CUfunction* out) {
  if (name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  Guard guard(module->lock);
  CUfunction& function = module->functions[name];
  if (function == nullptr) {
    if (module->text && !HasEntry(module, name)) {
      module->functions.erase(name);
      return CUDA_ERROR_NOT_FOUND;
    }
    auto* made = new CUkern_st{};
    made->magic = Magic::kFunction;
    made->module = module;
    made->name = strdup(name);
    made->timed = strstr(name, "for_nanoseconds") != nullptr;
    made->fault = strstr(name, "illegal_address") != nullptr  ? CUDA_ERROR_ILLEGAL_ADDRESS
                  : strstr(name, "launch_failure") != nullptr ? CUDA_ERROR_LAUNCH_FAILED
                  : strstr(name, "device_assert") != nullptr  ? CUDA_ERROR_ASSERT
                                                              : CUDA_SUCCESS;
    made->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = kMaxThreads;
    made->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    made->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    made->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    made->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    function = made;
  }
  *out = function;
  return CUDA_SUCCESS;
}

struct Dimensions {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
};

CUresult MakeKernel(CUfunction f, const Dimensions& d, uint8_t launch_type, void** parameters, void** extra, Op* out) {
  if (!Valid(f, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t threads = static_cast<uint64_t>(d.block[0]) * d.block[1] * d.block[2];
  if (threads == 0 || d.grid[0] == 0 || d.grid[1] == 0 || d.grid[2] == 0) return CUDA_ERROR_INVALID_VALUE;
  if (threads > kMaxThreads || d.block[2] > 64 || d.grid[1] > 65535 || d.grid[2] > 65535 || d.grid[0] > 2147483647u ||
      d.shared > static_cast<unsigned>(f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = NewOp(WorkKind::kKernel);
  auto& kernel = out->work.kernel;
  kernel.name = f->name;
  kernel.grid_id = engine().next_grid.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < 3; ++i) {
    kernel.grid[i] = d.grid[i];
    kernel.block[i] = d.block[i];
  }
  kernel.dynamic_shared = d.shared;
  kernel.static_shared = static_cast<uint32_t>(f->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
  kernel.registers = static_cast<uint16_t>(f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS]);
  kernel.launch_type = launch_type;
  out->duration = engine().kernel_ns;
  out->fault = f->fault;
  if (f->timed) {
    if (parameters != nullptr) {
      memcpy(&out->duration, parameters[0], sizeof(out->duration));
    } else if (extra != nullptr && extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      memcpy(&out->duration, extra[1], sizeof(out->duration));
    }
    if (out->duration < 0) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Lazy loading: the first launch of a function pays for it.
void Load(CUfunction f) {
  if (f->loaded.load(std::memory_order_relaxed) || f->loaded.exchange(true)) return;
  const int64_t cost = mode::load_us() * 1000;
  if (cost == 0) return;
  const int64_t start = Now();
  WaitUntil(start + cost);
  if (!Wants(kWantsOverhead) || TheHooks() == nullptr) return;
  const Overhead overhead = {5u << 16, start, Now(), Correlation(), 0};
  TheHooks()->overhead(overhead);
}

CUresult Launch(CUfunction f, const Dimensions& d, uint8_t launch_type, CUstream handle, void** parameters,
                void** extra, const uint32_t* cluster) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(handle, &stream));
  Op op;
  SIM_TRY(MakeKernel(f, d, launch_type, parameters, extra, &op));
  if (cluster != nullptr) memcpy(op.work.kernel.cluster, cluster, sizeof(op.work.kernel.cluster));
  if (thread_state().call != nullptr) thread_state().call->symbol = f->name;
  Load(f);
  static const int64_t fault_code = mode::fault();
  if (fault_code != 0 && engine().kernels.fetch_add(1) + 1 == mode::fault_at()) {
    op.fault = static_cast<CUresult>(fault_code);
  }
  return Submit(stream, op);
}

}  // namespace

// ---- modules and libraries

CUresult Driver::cuModuleLoadData(CUmodule* module, const void* image) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  Image read;
  SIM_TRY(ReadImage(image, &read));
  *module = new CUmod_st{};
  FillModule(*module, read, context);
  return CUDA_SUCCESS;
}

CUresult Driver::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                                    void** optionValues) {
  return cuModuleLoadData(module, image);
}

CUresult Driver::cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return cuModuleLoadData(module, fatCubin);
}

CUresult Driver::cuModuleLoad(CUmodule* module, const char* fname) {
  FILE* file = fopen(fname, "rbe");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string content;
  char part[4096];
  for (size_t size; (size = fread(part, 1, sizeof(part), file)) > 0;) content.append(part, size);
  fclose(file);
  if (content.size() < 4) return CUDA_ERROR_INVALID_IMAGE;
  return cuModuleLoadData(module, content.c_str());
}

CUresult Driver::cuModuleUnload(CUmodule hmod) {
  SIM_TRY(Usable());
  if (!Valid(hmod, Magic::kModule)) return CUDA_ERROR_INVALID_HANDLE;
  ResourceEvent event{};
  event.what = Resource::kModuleUnloadStarting;
  event.context = hmod->context;
  event.module_id = hmod->id;
  Report(event);
  Guard guard(hmod->lock);
  for (auto& [name, function] : hmod->functions) function->magic = Magic::kDead;
  hmod->magic = Magic::kDead;
  return CUDA_SUCCESS;
}

CUresult Driver::cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIM_TRY(Usable());
  const char* chosen = getenv("CUDA_MODULE_LOADING");
  *mode = chosen != nullptr && strcmp(chosen, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult Driver::cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  SIM_TRY(Usable());
  if (!Valid(hmod, Magic::kModule)) return CUDA_ERROR_INVALID_HANDLE;
  return FindFunction(hmod, name, hfunc);
}

CUresult Driver::cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult Driver::cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  SIM_TRY(Usable());
  if (!Valid(hmod, Magic::kModule)) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_ERROR_NOT_FOUND;  // variables of an image are not simulated
}

CUresult Driver::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                   void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                   void** libraryOptionValues, unsigned int numLibraryOptions) {
  SIM_TRY(Usable());
  Image read;
  SIM_TRY(ReadImage(code, &read));
  *library = new CUlib_st{};
  FillModule(*library, read, nullptr);
  return CUDA_SUCCESS;
}

CUresult Driver::cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                       void** jitOptionsValues, unsigned int numJitOptions,
                                       CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                       unsigned int numLibraryOptions) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Driver::cuLibraryUnload(CUlibrary library) { return cuModuleUnload(library); }

CUresult Driver::cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  SIM_TRY(Usable());
  if (!Valid(library, Magic::kModule)) return CUDA_ERROR_INVALID_HANDLE;
  CUfunction function = nullptr;
  SIM_TRY(FindFunction(library, name, &function));
  *pKernel = static_cast<CUkernel>(function);
  return CUDA_SUCCESS;
}

CUresult Driver::cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  SIM_TRY(Usable());
  if (!Valid(library, Magic::kModule)) return CUDA_ERROR_INVALID_HANDLE;
  *pMod = library;
  return CUDA_SUCCESS;
}

CUresult Driver::cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return cuModuleGetGlobal_v2(dptr, bytes, library, name);
}

CUresult Driver::cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return cuModuleGetGlobal_v2(dptr, bytes, library, name);
}

// ---- functions

CUresult Driver::cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (!Valid(kernel, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *pFunc = kernel;
  return CUDA_SUCCESS;
}

CUresult Driver::cuKernelGetName(const char** name, CUkernel hfunc) { return cuFuncGetName(name, hfunc); }

CUresult Driver::cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return cuFuncGetAttribute(pi, attrib, kernel);
}

CUresult Driver::cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return cuFuncSetAttribute(kernel, attrib, val);
}

CUresult Driver::cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  SIM_TRY(Usable());
  if (!Valid(kernel, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = static_cast<CUlibrary>(kernel->module);
  return CUDA_SUCCESS;
}

CUresult Driver::cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  if (attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *pi = hfunc->attributes[attrib];
  return CUDA_SUCCESS;
}

CUresult Driver::cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  if (attrib < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || attrib >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value > 232448) return CUDA_ERROR_INVALID_VALUE;
  hfunc->attributes[attrib] = value;
  return CUDA_SUCCESS;
}

// A hint, without effect on this device.
CUresult Driver::cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  SIM_TRY(Usable());
  return Valid(hfunc, Magic::kFunction) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Driver::cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *hmod = hfunc->module;
  return CUDA_SUCCESS;
}

CUresult Driver::cuFuncGetName(const char** name, CUfunction hfunc) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *name = hfunc->name;
  return CUDA_SUCCESS;
}

CUresult Driver::cuFuncLoad(CUfunction function) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (!Valid(function, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  Load(function);
  return CUDA_SUCCESS;
}

CUresult Driver::cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  SIM_TRY(Usable());
  if (!Valid(function, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *state = function->loaded.load() ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

// ---- launches

CUresult Driver::cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  const Dimensions d = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(f, d, 0, hStream, kernelParams, extra, nullptr);
}

CUresult Driver::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Dimensions d = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                        {config->blockDimX, config->blockDimY, config->blockDimZ},
                        config->sharedMemBytes};
  uint8_t launch_type = 0;
  uint32_t cluster[3] = {0, 0, 0};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) launch_type = 1;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      cluster[0] = attribute.value.clusterDim.x;
      cluster[1] = attribute.value.clusterDim.y;
      cluster[2] = attribute.value.clusterDim.z;
    }
  }
  return Launch(f, d, launch_type, config->hStream, kernelParams, extra, cluster);
}

CUresult Driver::cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                           unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                           unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                           void** kernelParams) {
  const Dimensions d = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  const uint64_t blocks = static_cast<uint64_t>(gridDimX) * gridDimY * gridDimZ;
  if (blocks > 132 * 32) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return Launch(f, d, 1, hStream, kernelParams, nullptr, nullptr);
}

// On a stream of its own for each device. They begin together: not simulated, each begins with its stream.
CUresult Driver::cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList, unsigned int numDevices,
                                                      unsigned int flags) {
  SIM_TRY(Usable());
  if (launchParamsList == nullptr || numDevices == 0 || numDevices > engine().devices.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < numDevices; ++i) {
    const CUstream stream = launchParamsList[i].hStream;
    if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!Valid(stream, Magic::kStream)) return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned j = 0; j < i; ++j) {
      if (launchParamsList[j].hStream->context->device == stream->context->device) return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (unsigned i = 0; i < numDevices; ++i) {
    const CUDA_LAUNCH_PARAMS& p = launchParamsList[i];
    const Dimensions d = {
        {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes};
    SIM_TRY(Launch(p.function, d, 2, p.hStream, p.kernelParams, nullptr, nullptr));
  }
  return CUDA_SUCCESS;
}

// ---- launches as CUDA 3 had them: shape and arguments are the function's

CUresult Driver::cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  hfunc->block[0] = static_cast<unsigned>(x);
  hfunc->block[1] = static_cast<unsigned>(y);
  hfunc->block[2] = static_cast<unsigned>(z);
  return CUDA_SUCCESS;
}

CUresult Driver::cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  SIM_TRY(Usable());
  return Valid(hfunc, Magic::kFunction) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Of the arguments only the first is of use here.
CUresult Driver::cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  SIM_TRY(Usable());
  if (!Valid(hfunc, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == 0 && numbytes == sizeof(hfunc->first_parameter)) memcpy(&hfunc->first_parameter, ptr, numbytes);
  return CUDA_SUCCESS;
}

CUresult Driver::cuLaunch(CUfunction f) { return cuLaunchGridAsync(f, 1, 1, nullptr); }
CUresult Driver::cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return cuLaunchGridAsync(f, grid_width, grid_height, nullptr);
}
CUresult Driver::cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  SIM_TRY(Usable());
  if (!Valid(f, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  const Dimensions d = {{static_cast<unsigned>(grid_width), static_cast<unsigned>(grid_height), 1},
                        {f->block[0], f->block[1], f->block[2]},
                        0};
  void* parameters[] = {&f->first_parameter};
  return Launch(f, d, 0, hStream, parameters, nullptr, nullptr);
}

CUresult Driver::cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Op op = NewOp(WorkKind::kHostFunction);
  op.host.function = fn;
  op.host.data = userData;
  return Submit(stream, op);
}

// ---- occupancy

CUresult Driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                             size_t dynamicSMemSize) {
  SIM_TRY(Usable());
  if (!Valid(func, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  if (blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  int blocks = std::min(32, 2048 / ((blockSize + 31) / 32 * 32));
  if (dynamicSMemSize != 0) blocks = std::min(blocks, static_cast<int>(233472 / (dynamicSMemSize + 1024)));
  *numBlocks = blocks;
  return CUDA_SUCCESS;
}

CUresult Driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                                      size_t dynamicSMemSize, unsigned int flags) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult Driver::cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                  int blockSizeLimit) {
  SIM_TRY(Usable());
  if (!Valid(func, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  *blockSize = blockSizeLimit > 0 ? std::min(blockSizeLimit, kMaxThreads) : kMaxThreads;
  const size_t shared =
      blockSizeToDynamicSMemSize != nullptr ? blockSizeToDynamicSMemSize(*blockSize) : dynamicSMemSize;
  int blocks = 0;
  SIM_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, func, *blockSize, shared));
  *minGridSize = blocks * 132;
  return CUDA_SUCCESS;
}

CUresult Driver::cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                         int blockSize) {
  SIM_TRY(Usable());
  if (!Valid(func, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  if (numBlocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  *dynamicSmemSize = std::min<size_t>(232448, 233472 / static_cast<size_t>(numBlocks) - 1024);
  return CUDA_SUCCESS;
}

CUresult Driver::cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  SIM_TRY(Usable());
  if (!Valid(func, Magic::kFunction)) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- kernel nodes, which need what is above

namespace {

CUresult MakeNode(const CUDA_KERNEL_NODE_PARAMS& p, Op* op) {
  const Dimensions d = {
      {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes};
  CUfunction function = p.func != nullptr ? p.func : p.kern;
  return MakeKernel(function, d, 0, p.kernelParams, p.extra, op);
}

}  // namespace

CUresult Driver::cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                         size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  SIM_TRY(Usable());
  if (!Valid(hGraph, Magic::kGraph) || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  SIM_TRY(MakeNode(*nodeParams, &op));
  *phGraphNode = AddNode(hGraph, CU_GRAPH_NODE_TYPE_KERNEL, op, dependencies, numDependencies);
  return CUDA_SUCCESS;
}

CUresult Driver::cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  SIM_TRY(Usable());
  if (!Valid(hGraphExec, Magic::kExec) || !Valid(hNode, Magic::kNode) || nodeParams == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Op op;
  SIM_TRY(MakeNode(*nodeParams, &op));
  Guard guard(hGraphExec->lock);
  for (auto& step : hGraphExec->steps) {
    if ((step.id & 0xffffffff) == (hNode->id & 0xffffffff) && step.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      step.op = op;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace tbprof::sim
