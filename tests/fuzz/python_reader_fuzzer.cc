// SPDX-License-Identifier: Apache-2.0
//
// The launcher's reading of a Python process, from memory that holds anything: a process with one thread and two
// frames, of any version, overwritten by the input:
//
//   minor:8 changed:16 xor:8, then patches: offset:16 value:64
//
// While it is read, the byte at `changed` goes to and fro, as if the process changed it.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/python_runtime.h"

namespace {

using namespace tbprof;

constexpr uint64_t kBase = 0x10000;
constexpr size_t kBytes = 0x10000;
constexpr uint64_t kRuntime = kBase, kInterpreter = kBase + 0x2000, kState = kBase + 0x4000, kCFrame = kBase + 0x4800,
                   kChunk = kBase + 0x5000, kCode = kBase + 0x6000, kType = kBase + 0x6800, kName = kBase + 0x7000,
                   kTable = kBase + 0x7800;

class Process {
 public:
  explicit Process(const PythonLayout& layout) : memory_(kBytes) {
    const bool has_cframe = layout.cframe_frame != kNoPythonMember;
    const uint64_t frames[] = {kChunk + 0x100, kChunk + 0x200};
    for (const PythonLayout& where : kPythonDebugOffsets) {
      if (where.minor == layout.minor) PutDebugOffsets(where, layout);
    }
    Put(kRuntime, layout.runtime_interpreters, kInterpreter);
    Put(kInterpreter, layout.interpreter_threads, kState);
    Put(kState, layout.thread_interpreter, kInterpreter);
    Put(kState, layout.thread_frame, has_cframe ? kCFrame : frames[1]);
    Put(kCFrame, layout.cframe_frame, frames[1]);
    if (layout.thread_chunk != kNoPythonMember) {
      Put(kState, layout.thread_chunk, kChunk);
      Put(kState, static_cast<uint16_t>(layout.thread_chunk + 8), kChunk + 0x280);
      Put(kChunk, 8, 0x1000);
    }
    Put(frames[1], layout.frame_previous, frames[0]);
    for (const uint64_t frame : frames) {
      Put(frame, layout.frame_code, kCode);
      if (layout.code_instructions != kNoPythonMember) {
        Put(frame, layout.frame_instruction, kCode + layout.code_instructions + 4);
      }
    }
    Put(kCode, layout.object_type, kType);
    for (const uint16_t text : {layout.code_name, layout.code_file, layout.code_qualname}) Put(kCode, text, kName);
    Put(kCode, layout.code_table, kTable);
    Put(kCode, layout.code_bytes, layout.code_instructions != kNoPythonMember ? 16 : kTable);
    Put(kType, layout.type_name, kType + 0x100);
    Put(kType, 0x100, 0x65646f63);  // "code"
    Put(kTable, layout.bytes_size, 16);
    Put(kName, layout.text_length, 4);
    Put(kName, layout.text_state, 1 << 2 | 1 << 5 | 1 << 6);
    Put(kName, layout.text_ascii, 0x656d616e);
  }

  void Put(uint64_t base, uint16_t offset, uint64_t value) {
    const uint64_t at = base - kBase + offset;
    if (offset != kNoPythonMember && at + 8 <= memory_.size()) std::memcpy(&memory_[at], &value, 8);
  }

  ReadMemory Reader(size_t changed, uint8_t bits) {
    return [this, changed, bits](void* out, std::span<const iovec> ranges) -> int64_t {
      if (ranges.size() > kMaxMemoryRanges) abort();
      int64_t done = 0;
      for (const iovec& range : ranges) {
        const uint64_t at = reinterpret_cast<uint64_t>(range.iov_base) - kBase;
        if (at >= memory_.size() || range.iov_len > memory_.size() - at) return done > 0 ? done : -EFAULT;
        std::memcpy(static_cast<uint8_t*>(out) + done, &memory_[at], range.iov_len);
        done += static_cast<int64_t>(range.iov_len);
        memory_[changed] ^= bits;
      }
      return done;
    };
  }

 private:
  void PutDebugOffsets(const PythonLayout& where, const PythonLayout& layout) {
    std::memcpy(memory_.data(), "xdebugpy", 8);
    const auto* places = reinterpret_cast<const uint16_t*>(&where);
    const auto* offsets = reinterpret_cast<const uint16_t*>(&layout);
    for (size_t i = 1; i < sizeof(PythonLayout) / 2; ++i) Put(kRuntime, places[i], offsets[i]);
  }

  std::vector<uint8_t> memory_;
};

// Whether a stack was read.
bool ReadProcess(uint16_t minor, const ReadMemory& read) {
  const PythonRuntime python = DecidePythonRuntime(kRuntime, 0, minor, false, read);
  if (!python.found || python.state != kPythonSampled) return false;
  PythonReader reader(python.layout, python.address, read);
  std::vector<PythonReader::Frame> frames;
  uint32_t codes = 0;
  bool any = false;
  for (int round = 0; round < 3; ++round) {
    if (!reader.ListThreads()) continue;
    size_t left = 8;
    for (PythonReader::Thread& thread : reader.threads()) {
      if (left-- == 0) break;
      const PythonReader::Result result = reader.ReadStack(&thread, &frames);
      for (const PythonReader::Code& code : reader.TakeNewCodes()) {
        if (code.number != ++codes || code.table.size() > PythonReader::kMaxTableBytes) abort();
        if (code.name.size() > PythonReader::kMaxTextBytes || code.file.size() > PythonReader::kMaxTextBytes) abort();
      }
      if (result != PythonReader::Result::kRead && !frames.empty()) abort();
      for (const PythonReader::Frame& frame : frames) {
        if (frame.code == 0 || frame.code > codes || frame.instruction < -1) abort();
      }
      any |= result == PythonReader::Result::kRead && frames.size() == 2;
    }
  }
  return any;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const PythonLayout& layout = kPythonLayouts[data[0] % std::size(kPythonLayouts)];
  Process process(layout);
  const size_t changed = static_cast<size_t>(data[1] | data[2] << 8);
  for (size_t at = 4; at + 10 <= size; at += 10) {
    uint64_t value;
    std::memcpy(&value, data + at + 2, 8);
    process.Put(kBase, static_cast<uint16_t>(data[at] | data[at + 1] << 8), value);
  }
  const bool read = ReadProcess(layout.minor, process.Reader(changed, data[3]));
  // Otherwise nothing of the reader would be fuzzed.
  if (size < 14 && data[3] == 0 && !read) abort();
  return 0;
}
