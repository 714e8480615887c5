// SPDX-License-Identifier: Apache-2.0
// TensorFlow's C interface for eager execution, which Python's calls too: each operation, and each function that
// tf.function has made, such as the training step of Keras, is one call of TFE_Execute. Rules: RULES.md.
#include "preload/annotations.h"
#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/resolve.h"

namespace tbprof {
namespace {

// The library changed its name with the way it is built.
constexpr char kLibraries[] = "libtensorflow_cc.so.2\0libtensorflow.so.2\0_pywrap_tensorflow_internal.so\0";

const char* (*g_operation_name)(const void* operation, void* status);

}  // namespace

void Hook_TFE_Execute(void* operation, void** results, int* count, void* status) {
  auto* const real = reinterpret_cast<decltype(g_real.TFE_Execute)>(
      FindForCaller(reinterpret_cast<void*>(&Hook_TFE_Execute), reinterpret_cast<void**>(&g_real.TFE_Execute),
                    "TFE_Execute", kLibraries, __builtin_return_address(0)));
  if (real == nullptr) return;
  ThreadState* thread = nullptr;
  if (Armed(kFamilyAnnotation) && FindLate(&g_operation_name, "TFE_OpGetName", kLibraries)) {
    thread = CurrentThread();
    if (thread == nullptr) CountMissedWait();
  }
  if (thread != nullptr) {
    // The status is written only for an operation that has no name.
    Annotate(thread, AnnotationAction::kPush, kTensorFlowDomain,
             NameNumber(thread, g_operation_name(operation, status)), 0);
  }
  real(operation, results, count, status);
  if (thread == nullptr || !Armed(kFamilyAnnotation)) return;
  // The call may have ended this thread's record, or forked.
  thread = CurrentThread();
  if (thread != nullptr) Annotate(thread, AnnotationAction::kPop, kTensorFlowDomain, 0, 0);
}

}  // namespace tbprof
