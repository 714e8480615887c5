// SPDX-License-Identifier: Apache-2.0
//
// Reads the Python stacks of one process from its memory while it runs.
//
//   PythonReader reader(runtime.layout, runtime.address, ProcessMemory(pid));
//   reader.ListThreads();
//   for (auto& thread : reader.threads()) reader.ReadStack(&thread, &frames);
//
// A stack is accepted only if two copies of all its frames agree. One process_vm_readv makes both copies, and begins
// the second one when the first is complete, so the stack existed between them. The pointer to the innermost frame is
// read in between. The instruction of the innermost frame may differ. The reading thread must not have been switched
// out in between.
//
// Waiting until nothing changes would bias the samples towards long calls. If calls begin and end faster than two
// copies are made, the stack consists of the outer frames that both copies have, and of those inner frames of the
// second copy whose calls are known from stacks that agreed. Frames lie in the thread's chunks of the data stack (3.11
// and later), in generators, on the C stack (3.12 and later), or on the heap (up to 3.10). A walk finds the frames
// outside of the chunks; their addresses are remembered for the next sample.
//
// Untrusted: everything that is read. All loops are bounded, and a code object must have CPython's code type.
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
    int32_t instruction;  // byte offset; -1: before the first instruction
  };
  struct Code {
    uint32_t number = 0;
    int32_t first_line = 0;
    bool table_too_long = false;
    std::string name, file, table;
  };
  // The addresses of a thread's structures at the last sample.
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
    uint64_t frame = 0, chunk = 0, top = 0;  // from the last ListThreads
    Places places;
  };
  enum class Result {
    kRead,
    kTorn,        // the stack changed while it was copied
    kUnreadable,  // the memory cannot be read, or contains no valid stack
  };
  enum class SelfCheck { kPending, kPassed, kFailed };

  // `is_still`: the memory never changes, as in a core file.
  PythonReader(const PythonLayout& layout, uint64_t runtime, ReadMemory read, bool is_still = false);

  // False if the interpreter is not initialised, or its list of threads cannot be read: error() gives the reason.
  bool ListThreads();
  std::vector<Thread>& threads() { return threads_; }
  // Addresses of the PyInterpreterState objects.
  const std::vector<uint64_t>& interpreters() const { return interpreters_; }
  // errno of the last read that failed completely; 0: the data was invalid, or the interpreter is not initialised.
  int error() const { return error_; }

  // Innermost frame first. Sets the thread's ids to those of the moment at which the stack was copied.
  Result ReadStack(Thread* thread, std::vector<Frame>* frames);

  // `frames`: the result of the last ReadStack. Returns the address of the outermost frame if it is the function with
  // which threading.Thread starts a thread; else 0.
  uint64_t ThreadStartFrame(const std::vector<Frame>& frames) const;

  // Code objects seen for the first time since the last call.
  std::vector<Code> TakeNewCodes() { return std::exchange(new_codes_, {}); }
  // Whether the first frames were valid frames of this version.
  SelfCheck self_check() const;

 private:
  struct RawFrame {
    uint64_t address, code, previous;
    uint64_t instruction;  // pointer; up to 3.10 f_lasti
    uint8_t owner;
  };
  // Members of a code object; if they are unchanged, it is still the same object.
  struct Fingerprint {
    uint64_t type, file, name, qualname, table, bytes;
    int32_t first_line;
    bool operator==(const Fingerprint&) const = default;
  };
  struct KnownCode {
    Fingerprint fingerprint;
    uint32_t number;
    int64_t instruction_bytes;
    bool generator;  // code of a generator or a coroutine
  };
  struct Region {
    uint64_t address;
    size_t size;
    bool once = false;  // copied once, between the two copies of all other regions
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
  // The number of outermost frames of raw_ that `copy` has, too.
  size_t CommonFrames(const uint8_t* copy) const;
  // Resolves the stack of two copies that differ, if all its calls are known; `cut`: also if only outer calls are.
  Attempt ResolvePart(bool cut, std::vector<Frame>* frames);
  // False if the copy lacks the structure that points to the innermost frame.
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

  // State of the stack that is being read.
  std::vector<Region> regions_;  // by address
  std::vector<uint8_t> bytes_;
  size_t copy_bytes_ = 0;  // of both copies
  int64_t switches_ = 0;   // context switches of this thread at the last check
  std::vector<iovec> ranges_;
  std::vector<RawFrame> raw_;
  size_t common_ = 0;  // number of outermost frames that both copies have
  KnownCalls calls_;
  std::vector<uint8_t> code_copy_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_READER_H_
