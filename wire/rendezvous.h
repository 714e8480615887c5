// SPDX-License-Identifier: Apache-2.0
//
// How a target finds its launcher: one environment variable, a socket, one message.
//
// The launcher sets TBPROF_SESSION to `4;<socket path>` and the numbers of settings.def, each behind a `;`. The library
// makes a segment, configures it from the variable, sends a Hello with the segment's descriptor over the SEQPACKET
// socket, and keeps neither descriptor nor connection. The same socket exists under an abstract name (`@` + path), for
// a target whose root directory has changed.
//
// Process: target (parses) and launcher (formats). No allocation; usable in a constructor.
#ifndef TBPROF_WIRE_RENDEZVOUS_H_
#define TBPROF_WIRE_RENDEZVOUS_H_

#include <stdint.h>

#include "wire/layout.h"

namespace tbprof {

inline constexpr char kSessionVariable[] = "TBPROF_SESSION";
// What the launcher has put into TBPROF_RUN and TBPROF_RANKS, and the name of its host: for a later tbprof there these
// are no options of the user. On other hosts they are, so that a tbprof for each rank takes part in the same run.
inline constexpr char kRunOfSession[] = "TBPROF_SESSION_RUN", kRanksOfSession[] = "TBPROF_SESSION_RANKS",
                      kHostOfSession[] = "TBPROF_SESSION_HOST";
inline constexpr char kPreloadVariable[] = "LD_PRELOAD";
inline constexpr char kPreloadFileName[] = "libtbprof_preload.so";
// The variable that names the collector that NVTX loads.
inline constexpr char kNvtxVariable[] = "NVTX_INJECTION64_PATH";

inline constexpr uint32_t kMaxSocketPath = 100;  // sun_path holds 108, and the abstract name needs one more

struct SessionVariable {
  char socket_path[kMaxSocketPath + 1];
#define TBPROF_TARGET(type, name, base, low, high, meaning) type name;
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) type name;
#include "wire/settings.def"
};

// Calls visit(number, base, low, high) for each number, in the order of the text, as long as it returns true.
template <typename Variable, typename Visit>
bool VisitNumbers(Variable& variable, const Visit& visit) {
#define TBPROF_TARGET(type, name, base, low, high, meaning) \
  if (!visit(variable.name, base, low, high)) return false;
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  TBPROF_TARGET(type, name, 10, low, high, meaning)
#include "wire/settings.def"
  return true;
}

// One of two messages from target to launcher, sent with the segment's descriptor as SCM_RIGHTS.
struct Hello {
  uint64_t magic;
  uint32_t abi;
  int32_t pid;  // as the target sees it
  uint64_t nonce;
  uint64_t segment_bytes;
};
inline constexpr uint64_t kHelloMagic = 0x314f4c45'48504254;  // "TBPHELO1"

// Why a library that has found its launcher records nothing.
enum class InertReason : uint32_t {
  kFileLimit = 1,     // RLIMIT_FSIZE leaves no room for a segment
  kAddressLimit = 2,  // RLIMIT_AS leaves no room for a segment
  kForkPage = 3,      // mmap or MADV_WIPEONFORK failed
  kMemfd = 4,         // memfd_create failed
  kSize = 5,          // ftruncate or sealing failed
  kMap = 6,           // mmap of the segment failed
  kSend = 7,          // the descriptor could not be sent
  kNotChosen = 8,     // --ranks leaves out this rank, as requested
  kSanitizer = 9,     // ThreadSanitizer: a hook between it and its callers changes what it reports
};

// The other message, without a descriptor and as long as a Hello: this process is not recorded.
struct InertNotice {
  uint64_t magic;
  uint32_t abi;
  int32_t pid;
  uint64_t nonce;
  uint32_t reason;  // InertReason
  int32_t error;    // error number of the call that failed, or 0
};
inline constexpr uint64_t kInertMagic = 0x31545249'48504254;  // "TBPHIRT1"
static_assert(sizeof(InertNotice) == sizeof(Hello));

namespace rendezvous_internal {
// Reads one field up to `;` or the end; false if it is not a number or overflows.
inline bool ReadNumber(const char** cursor, uint32_t base, uint64_t* value) {
  const char* at = *cursor;
  uint64_t number = 0;
  bool any = false;
  for (; *at != '\0' && *at != ';'; ++at) {
    uint32_t digit;
    if (*at >= '0' && *at <= '9') {
      digit = static_cast<uint32_t>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      digit = static_cast<uint32_t>(*at - 'a') + 10;
    } else {
      return false;
    }
    if (digit >= base || __builtin_mul_overflow(number, static_cast<uint64_t>(base), &number) ||
        __builtin_add_overflow(number, static_cast<uint64_t>(digit), &number)) {
      return false;
    }
    any = true;
  }
  if (*at == ';') ++at;
  *cursor = at;
  *value = number;
  return any;
}
}  // namespace rendezvous_internal

// The number of seccomp filters of a process. `status`: the text of /proc/PID/status. Kernels before 5.9 report only
// that there are any.
inline uint32_t SeccompFilters(const char* status) {
  static constexpr const char* kFields[] = {"\nSeccomp_filters:\t", "\nSeccomp:\t"};
  for (const char* field : kFields) {
    for (const char* at = status; *at != '\0'; ++at) {
      uint32_t i = 0;
      while (field[i] != '\0' && at[i] == field[i]) ++i;
      if (field[i] != '\0') continue;
      uint32_t count = 0;
      for (at += i; *at >= '0' && *at <= '9' && count < 100000; ++at) {
        count = count * 10 + static_cast<uint32_t>(*at - '0');
      }
      return count;
    }
  }
  return 0;
}

// False if the text is not a session variable of this version; `*session` is then unspecified.
inline bool ParseSessionVariable(const char* text, SessionVariable* session) {
  if (text == nullptr || text[0] != '4' || text[1] != ';') return false;
  const char* cursor = text + 2;
  uint32_t length = 0;
  while (*cursor != '\0' && *cursor != ';') {
    if (length == kMaxSocketPath) return false;
    session->socket_path[length++] = *cursor++;
  }
  session->socket_path[length] = '\0';
  if (length == 0 || *cursor != ';') return false;
  ++cursor;
  const auto parse = [&cursor]<typename Number>(Number& field, uint32_t base, uint64_t low, uint64_t high) {
    uint64_t number;
    if (!rendezvous_internal::ReadNumber(&cursor, base, &number) || number < low || number > high) return false;
    field = static_cast<Number>(number);
    return true;
  };
  return VisitNumbers(*session, parse) && *cursor == '\0';
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_RENDEZVOUS_H_
