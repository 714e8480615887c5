// SPDX-License-Identifier: Apache-2.0
//
// Names and texts of the runtime's error codes, which are answered without a driver.
#include "tests/sim/runtime.h"

#define SIM_EXPORT extern "C" SIM_RUNTIME_VISIBILITY

namespace {

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

#define SIM_ERROR(code, text) \
  { code, #code, text }
constexpr ErrorText kErrors[] = {
    SIM_ERROR(cudaSuccess, "no error"),
    SIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SIM_ERROR(cudaErrorInitializationError, "initialization error"),
    SIM_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    SIM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SIM_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    SIM_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    SIM_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SIM_ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    SIM_ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    SIM_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SIM_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    SIM_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    SIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SIM_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SIM_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    SIM_ERROR(cudaErrorNotReady, "device not ready"),
    SIM_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SIM_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SIM_ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    SIM_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SIM_ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    SIM_ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    SIM_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SIM_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    SIM_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SIM_ERROR(cudaErrorNotSupported, "operation not supported"),
    SIM_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    SIM_ERROR(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination"),
    SIM_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    SIM_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    SIM_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    SIM_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    SIM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SIM_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    SIM_ERROR(cudaErrorStreamCaptureImplicit,
              "operation would make the legacy stream depend on a capturing blocking stream"),
    SIM_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    SIM_ERROR(cudaErrorGraphExecUpdateFailure,
              "the graph update was not performed because it included changes which violated constraints specific to "
              "instantiated graph update"),
    SIM_ERROR(cudaErrorUnknown, "unknown error"),
};

const ErrorText* Find(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

SIM_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = Find(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

SIM_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = Find(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

// Of the calls that need no device the one that returns no error code.
SIM_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}
