// SPDX-License-Identifier: Apache-2.0
//
// The functions of CUPTI whose calls by the program are counted: those that preload/hooks.def lists.
//
// Process: any.
#ifndef TBPROF_WIRE_CUPTI_CALLS_H_
#define TBPROF_WIRE_CUPTI_CALLS_H_

#include <stdint.h>

namespace tbprof {

#define TBPROF_CUPTI_CALLS(CALL)               \
  CALL(cuptiSubscribe)                         \
  CALL(cuptiSubscribe_v2)                      \
  CALL(cuptiUnsubscribe)                       \
  CALL(cuptiFinalize)                          \
  CALL(cuptiActivityRegisterCallbacks)         \
  CALL(cuptiActivityEnable)                    \
  CALL(cuptiActivityEnableAndDump)             \
  CALL(cuptiActivityEnableContext)             \
  CALL(cuptiActivityDisable)                   \
  CALL(cuptiActivityDisableContext)            \
  CALL(cuptiActivityEnableDriverApi)           \
  CALL(cuptiActivityEnableRuntimeApi)          \
  CALL(cuptiActivityFlushAll)                  \
  CALL(cuptiActivityFlush)                     \
  CALL(cuptiActivitySetAttribute)              \
  CALL(cuptiActivityGetAttribute)              \
  CALL(cuptiActivityRegisterTimestampCallback) \
  CALL(cuptiSetThreadIdType)                   \
  CALL(cuptiGetThreadIdType)                   \
  CALL(cuptiEnableCallback)                    \
  CALL(cuptiEnableDomain)                      \
  CALL(cuptiEnableAllDomains)

// Used within one process: the numbers are not part of the wire format.
enum class CuptiCall : uint8_t {
  kNone,
#define TBPROF_ENUMERATOR(name) k_##name,
  TBPROF_CUPTI_CALLS(TBPROF_ENUMERATOR)
#undef TBPROF_ENUMERATOR
};

// kNone: an empty text.
inline const char* CuptiCallName(CuptiCall call) {
  switch (call) {
    case CuptiCall::kNone:
      break;
#define TBPROF_CASE(name)   \
  case CuptiCall::k_##name: \
    return #name;
      TBPROF_CUPTI_CALLS(TBPROF_CASE)
#undef TBPROF_CASE
  }
  return "";
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_CUPTI_CALLS_H_
