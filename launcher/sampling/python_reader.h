// SPDX-License-Identifier: Apache-2.0
//
// Reads the Python stacks of one process from its memory while it runs.
//
//   PythonReader reader(runtime.layout, runtime.address, ProcessMemory(pid));
//   reader.ListThreads();
//   for (auto& thread : reader.threads()) reader.ReadStack(&thread, &frames);
//
// A stack counts only if two copies of all its frames agree. Both are made by one process_vm_readv, the second begun
// when the first is complete, so that the stack existed between them; the pointer to the innermost frame is read in
// between. The top frame's instruction may differ. The reading thread must not have been switched out in between.
//
// To wait until nothing changes would prefer what lasts. Where calls come and go faster than two copies are made, the
// outer frames that both have are the stack, and of the inner ones of the second copy those that were seen to be called
// so in stacks that agreed. Frames lie in the thread's chunks of the data stack (3.11 and later), in generators, on the
// C stack (3.12 and later), or on the heap (up to 3.10); where those outside of the chunks lie is found out by a walk,
// and remembered for the next sample.
//
// Nothing read is trusted: all loops are bounded, and a code object counts only with CPython's type for it.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_READER_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "launcher/sampling/known_calls.h"
#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"

namespace tbprof {

class PythonReader {
 public:
  static constexpr size_t kMaxThreads = 4096;
  static constexpr size_t kMaxInterpreters = 256;
  static constexpr size_t kMaxFrames = 2048;
  static constexpr size_t kMaxTextBytes = 4096;
  static constexpr size_t kMaxTableBytes = 8 << 10;

  struct Frame {
    uint32_t code;        // Code::number
    int32_t instruction;  // byte offset, -1: before the first
  };
  struct Code {
    uint32_t number = 0;
    int32_t first_line = 0;
    bool table_too_long = false;
    std::string name, file, table;
  };
  // Where what is read of a thread lay at the last sample.
  struct Places {
    std::vector<uint64_t> cframes;                    // on the C stack, the latest first
    std::vector<std::pair<uint64_t, size_t>> chunks;  // address, bytes used; newest first
    std::vector<uint64_t> frames;                     // outside of the chunks
  };
  struct Thread {
    uint64_t address = 0;  // PyThreadState
    uint64_t interpreter = 0;
    uint64_t thread_id = 0;
    uint64_t native_id = 0;  // 0: the version has none
    bool main = false;
    uint64_t frame = 0, chunk = 0, top = 0;  // of the last ListThreads
    Places places;
  };
  enum class Result {
    kRead,
    kTorn,        // the stack changed while it was copied
    kUnreadable,  // memory cannot be read, or holds no stack
  };
  enum class SelfCheck { kPending, kPassed, kFailed };

  // `is_still`: nothing changes, as in a core file, however long a read takes.
  PythonReader(const PythonLayout& layout, uint64_t runtime, ReadMemory read, bool is_still = false);

  // False if the interpreter is not initialised, or its list of threads cannot be read: error() says which.
  bool ListThreads();
  std::vector<Thread>& threads() { return threads_; }
  // Addresses of their PyInterpreterState.
  const std::vector<uint64_t>& interpreters() const { return interpreters_; }
  // errno of the last read that failed as a whole; 0: memory was read and made no sense, or nothing is there yet.
  int error() const { return error_; }

  // Innermost frame first. The thread's numbers are those that it had then.
  Result ReadStack(Thread* thread, std::vector<Frame>* frames);

  // Of the stack that ReadStack read last into `frames`: its outermost frame, where that is the function by which
  // threading.Thread starts a thread; else 0.
  uint64_t ThreadStartFrame(const std::vector<Frame>& frames) const;

  // Code objects seen for the first time since the last call.
  std::vector<Code> TakeNewCodes() { return std::exchange(new_codes_, {}); }
  // Whether the first frames looked like frames of this version.
  SelfCheck self_check() const;

 private:
  struct RawFrame {
    uint64_t address, code, previous;
    uint64_t instruction;  // pointer; up to 3.10 f_lasti
    uint8_t owner;
  };
  // What of a code object tells that it is still the same one.
  struct Fingerprint {
    uint64_t type, file, name, qualname, table, bytes;
    int32_t first_line;
    bool operator==(const Fingerprint&) const = default;
  };
  struct KnownCode {
    Fingerprint fingerprint;
    uint32_t number;
    int64_t instruction_bytes;
    bool generator;  // a generator's or a coroutine's
  };
  struct Region {
    uint64_t address;
    size_t size;
    bool once = false;  // it has but one copy, between those of all else
    size_t offset = 0;  // of the first copy
  };
  enum class Attempt { kAccepted, kAgain, kTorn, kUnreadable };

  bool Has(uint16_t member) const { return member != kNoPythonMember; }
  template <typename T>
  static T Load(const uint8_t* at) {
    T value;
    __builtin_memcpy(&value, at, sizeof(value));
    return value;
  }
  bool Read(uint64_t address, void* out, size_t size);
  bool ParseThread(uint64_t address, const uint8_t* bytes, Thread* thread) const;
  bool ListThreadsOf(uint64_t interpreter, uint64_t state, uint64_t main_thread, size_t copied,
                     std::vector<Thread>* found);
  size_t IndexOfThread(uint64_t address) const;
  Attempt TryCopy(Thread* thread);
  bool TakeIds(Thread* thread) const;
  bool PlaceRegions(const Thread& thread);
  void AddToPage(uint64_t address, size_t size, bool once);
  bool FindChunks(const uint8_t* copy, Thread* thread);
  const uint8_t* Find(const uint8_t* copy, uint64_t address, size_t size) const;
  RawFrame ParseFrame(uint64_t address, const uint8_t* bytes) const;
  Attempt Walk(Thread* thread, const uint8_t* copy);
  // How many of the outer frames of raw_ a copy has, too.
  size_t CommonFrames(const uint8_t* copy) const;
  // The stack of two copies that differ, if all of it is known; as far as it is, if it may be cut.
  Attempt ResolvePart(bool cut, std::vector<Frame>* frames);
  // False if what it is read from lies elsewhere by now.
  bool InnermostFrame(const Thread& thread, const uint8_t* copy, uint64_t* frame) const;
  Attempt ResolveCodes(std::vector<Frame>* frames);
  Fingerprint ParseCode(const uint8_t* bytes) const;
  const KnownCode* ReadCode(uint64_t address, const uint8_t* bytes, const Fingerprint& fingerprint);
  bool IsCodeType(uint64_t type);
  std::optional<std::string> ReadText(uint64_t address);
  bool ReadTable(uint64_t address, Code* code);

  PythonLayout layout_;
  uint64_t runtime_;
  ReadMemory read_;
  bool is_still_;
  int error_ = 0;
  size_t thread_bytes_;  // of a thread state
  size_t code_bytes_;    // of a code object
  std::vector<Thread> threads_;
  std::vector<uint64_t> interpreters_;
  std::unordered_map<uint64_t, KnownCode> codes_;
  std::vector<Code> new_codes_;
  std::unordered_set<uint32_t> thread_starts_;  // numbers of code objects
  uint32_t code_count_ = 0;
  uint64_t code_type_ = 0;
  uint32_t checked_ = 0, wrong_ = 0;

  // Of the stack being read.
  std::vector<Region> regions_;  // by address
  std::vector<uint8_t> bytes_;
  size_t copy_bytes_ = 0;  // of both copies
  int64_t switches_ = 0;   // of this thread, when it was last looked at
  std::vector<iovec> ranges_;
  std::vector<RawFrame> raw_;
  size_t common_ = 0;  // of its outer frames both copies have so many
  KnownCalls calls_;
  std::vector<uint8_t> code_copy_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_READER_H_
