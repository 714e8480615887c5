// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_reader.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "launcher/sampling/python_text.h"

namespace tbprof {
namespace {

constexpr size_t kMaxOutside = 400;  // frames; one read has 1000 ranges for 2 copies of frames, chunks and states
constexpr size_t kMostChunks = 64;
constexpr size_t kMaxCopyBytes = 2 << 20;
constexpr size_t kKeptChunkBytes = 8 << 10;
constexpr size_t kKeptFrames = 32;  // earlier frames outside of the chunks that the last stack lacks
constexpr size_t kKeptCFrames = 16;
constexpr size_t kMaxCodes = 1 << 18;
// If a program calls a function every 100 ns, half of the copies are torn.
constexpr int kMaxAttempts = 40;
constexpr int kMaxTorn = 20;
constexpr int kTornBeforeCut = 2;
constexpr uint32_t kFramesToCheck = 64;
constexpr size_t kReadBytes = 4096;
constexpr size_t kStackReach = 16 << 10;

size_t EndOf(uint16_t offset, size_t size) { return offset == kNoPythonMember ? 0 : offset + size; }

// Voluntary and involuntary context switches of this thread.
int64_t ContextSwitches() {
  rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  return int64_t{used.ru_nvcsw} + used.ru_nivcsw;
}

}  // namespace

PythonReader::PythonReader(const PythonLayout& layout, uint64_t runtime, ReadMemory read, bool is_still)
    : layout_(layout), runtime_(runtime), read_(std::move(read)), is_still_(is_still) {
  thread_bytes_ =
      std::max({EndOf(layout.thread_next, 8), EndOf(layout.thread_interpreter, 8), EndOf(layout.thread_frame, 8),
                EndOf(layout.thread_id, 8), EndOf(layout.thread_native_id, 8), EndOf(layout.thread_chunk, 16)});
  code_bytes_ = std::max({EndOf(layout.code_flags, 4), EndOf(layout.code_first_line, 4), EndOf(layout.code_file, 8),
                          EndOf(layout.code_name, 8), EndOf(layout.code_qualname, 8), EndOf(layout.code_table, 8),
                          EndOf(layout.code_bytes, 8), EndOf(layout.object_type, 8)});
}

bool PythonReader::Read(uint64_t address, void* out, size_t size) {
  const iovec range = MemoryRange(address, size);
  const int64_t got = read_(out, {&range, 1});
  if (got == static_cast<int64_t>(size)) return true;
  error_ = got < 0 ? static_cast<int>(-got) : 0;
  return false;
}

bool PythonReader::ParseThread(uint64_t address, const uint8_t* bytes, Thread* thread) const {
  thread->address = address;
  thread->thread_id = Load<uint64_t>(bytes + layout_.thread_id);
  thread->native_id = Has(layout_.thread_native_id) ? Load<uint64_t>(bytes + layout_.thread_native_id) : 0;
  thread->frame = Load<uint64_t>(bytes + layout_.thread_frame);
  if (Has(layout_.thread_chunk)) {
    thread->chunk = Load<uint64_t>(bytes + layout_.thread_chunk);
    thread->top = Load<uint64_t>(bytes + layout_.thread_chunk + 8);
  }
  return true;
}

// One read copies all thread states that are known from the last call and, after them, the heads of the lists: a state
// that is still listed existed when it was copied. Each new state then takes one further read.
bool PythonReader::ListThreads() {
  error_ = 0;
  const size_t states = std::min(threads_.size(), kMaxMemoryRanges - 2 - 2 * interpreters_.size());
  const size_t heads = thread_bytes_ * states;
  bytes_.resize(std::max(bytes_.size(), heads + 16 * (1 + interpreters_.size())));
  ranges_.clear();
  for (size_t i = 0; i < states; ++i) ranges_.push_back(MemoryRange(threads_[i].address, thread_bytes_));
  ranges_.push_back(MemoryRange(runtime_ + layout_.runtime_main_thread, 8));
  ranges_.push_back(MemoryRange(runtime_ + layout_.runtime_interpreters, 8));
  for (uint64_t interpreter : interpreters_) {
    ranges_.push_back(MemoryRange(interpreter + layout_.interpreter_threads, 8));
    ranges_.push_back(MemoryRange(interpreter + layout_.interpreter_next, 8));
  }
  const int64_t got = read_(bytes_.data(), ranges_);
  const size_t copied = got < 0 ? 0 : static_cast<size_t>(got);
  // Takes a list head from the copy, or reads it if the copy ends earlier.
  const auto head = [&](size_t index, uint64_t address, uint64_t* value) {
    const size_t at = heads + 8 * index;
    if (at + 8 > copied) return Read(address, value, 8);
    *value = Load<uint64_t>(&bytes_[at]);
    return true;
  };
  uint64_t main_thread = 0, interpreter = 0;
  if (!head(0, runtime_ + layout_.runtime_main_thread, &main_thread)) return false;
  if (!head(1, runtime_ + layout_.runtime_interpreters, &interpreter)) return false;

  std::vector<uint64_t> interpreters;
  std::vector<Thread> found;
  found.reserve(threads_.size());
  while (interpreter != 0) {
    if (interpreters.size() == kMaxInterpreters || !IsPointer(interpreter)) return false;
    const auto known = std::find(interpreters_.begin(), interpreters_.end(), interpreter);
    const size_t index = known == interpreters_.end() ? bytes_.size()  // not in the copy
                                                      : 2 + 2 * static_cast<size_t>(known - interpreters_.begin());
    uint64_t state = 0, next = 0;
    if (!head(index, interpreter + layout_.interpreter_threads, &state)) return false;
    if (!head(index + 1, interpreter + layout_.interpreter_next, &next)) return false;
    if (!ListThreadsOf(interpreter, state, main_thread, std::min(copied / thread_bytes_, states), &found)) return false;
    interpreters.push_back(interpreter);
    interpreter = next;
  }
  threads_ = std::move(found);
  interpreters_ = std::move(interpreters);
  return true;
}

// `copied`: the number of known thread states in bytes_.
bool PythonReader::ListThreadsOf(uint64_t interpreter, uint64_t state, uint64_t main_thread, size_t copied,
                                 std::vector<Thread>* found) {
  std::vector<uint8_t> fresh(thread_bytes_);
  size_t expected = 0;  // states usually keep the order of the last call
  while (state != 0) {
    if (found->size() == kMaxThreads || !IsPointer(state)) return false;
    const bool as_expected = expected < threads_.size() && threads_[expected].address == state;
    const size_t before = as_expected ? expected : IndexOfThread(state);
    if (before < threads_.size()) expected = before + 1;
    const uint8_t* bytes = fresh.data();
    if (before < copied) {
      bytes = &bytes_[before * thread_bytes_];
    } else if (!Read(state, fresh.data(), thread_bytes_)) {
      return false;
    }
    // The state is being created or freed: the next call reads the rest of the list.
    if (Load<uint64_t>(bytes + layout_.thread_interpreter) != interpreter) break;
    Thread thread;
    if (before < threads_.size()) thread.places = std::move(threads_[before].places);
    ParseThread(state, bytes, &thread);
    thread.interpreter = interpreter;
    thread.main = thread.thread_id == main_thread;
    state = Load<uint64_t>(bytes + layout_.thread_next);
    found->push_back(std::move(thread));  // kMaxThreads ends a circular list
  }
  return true;
}

size_t PythonReader::IndexOfThread(uint64_t address) const {
  const auto at = std::find_if(threads_.begin(), threads_.end(),
                               [address](const Thread& thread) { return thread.address == address; });
  return static_cast<size_t>(at - threads_.begin());
}

// ---- one stack

// Merges structures in one page into one range: each range takes 0.4 us, and a longer copy is less exact. Generators
// that are created in sequence are adjacent, and so are the cframes of functions that call each other.
void PythonReader::AddToPage(uint64_t address, size_t size, bool once) {
  const auto page = std::find_if(regions_.begin(), regions_.end(), [&](const Region& region) {
    // A stack is mapped without gaps, so its structures may share a range across pages.
    if (once) return region.once && region.address < address + kStackReach && address < region.address + kStackReach;
    return !region.once && region.address / kReadBytes == address / kReadBytes;
  });
  if (page == regions_.end()) {
    regions_.push_back({address, size, once});
    return;
  }
  const uint64_t end = std::max(page->address + page->size, address + size);
  page->address = std::min(page->address, address);
  page->size = end - page->address;
}

// Plans the ranges of a read; false if they are too many or too large. The first copy ends with the innermost frames,
// and the second copy begins with them: they change most often, so their copies are closest in time.
bool PythonReader::PlaceRegions(const Thread& thread) {
  regions_.clear();
  for (const uint64_t frame : thread.places.frames) AddToPage(frame, layout_.frame_size, false);
  std::reverse(regions_.begin(), regions_.end());
  const auto& chunks = thread.places.chunks;
  for (auto at = chunks.rbegin(); at != chunks.rend(); ++at) regions_.push_back({at->first, at->second});
  const size_t twice = regions_.size();
  // A pointer is read before the range to which it points. The cframes of C functions that call into Python are
  // adjacent.
  regions_.push_back({thread.address + layout_.thread_frame, thread_bytes_ - layout_.thread_frame, true});
  for (const uint64_t cframe : thread.places.cframes) AddToPage(cframe, layout_.cframe_frame + 8u, true);
  copy_bytes_ = 0;
  ranges_.clear();
  for (Region& region : regions_) {
    region.offset = copy_bytes_;
    copy_bytes_ += region.size;
    ranges_.push_back(MemoryRange(region.address, region.size));
  }
  for (size_t i = twice; i-- > 0;) {
    ranges_.push_back(ranges_[i]);
    copy_bytes_ += regions_[i].size;
  }
  std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.address < b.address; });
  return copy_bytes_ <= kMaxCopyBytes && ranges_.size() <= kMaxMemoryRanges;
}

const uint8_t* PythonReader::Find(const uint8_t* copy, uint64_t address, size_t size) const {
  auto at = std::upper_bound(regions_.begin(), regions_.end(), address,
                             [](uint64_t value, const Region& region) { return value < region.address; });
  // A frame beyond the known top of its chunk has its own region inside of the chunk's region.
  for (int i = 0; i < 3 && at != regions_.begin(); ++i) {
    --at;
    const uint64_t into = address - at->address;
    if (into > at->size || size > at->size - into) continue;
    const bool first = copy == bytes_.data() || at->once;
    return bytes_.data() + (first ? at->offset : copy_bytes_ - at->offset - at->size) + into;
  }
  return nullptr;
}

PythonReader::RawFrame PythonReader::ParseFrame(uint64_t address, const uint8_t* bytes) const {
  RawFrame frame;
  frame.address = address;
  frame.code = Load<uint64_t>(bytes + layout_.frame_code);
  if (layout_.minor >= kPythonFirstTaggedMinor) frame.code &= ~kPythonReferenceTags;
  frame.previous = Load<uint64_t>(bytes + layout_.frame_previous);
  if (Has(layout_.frame_owner)) {
    frame.owner = bytes[layout_.frame_owner];
    frame.instruction = Load<uint64_t>(bytes + layout_.frame_instruction);
  } else {
    frame.owner = 0;
    frame.instruction = static_cast<uint64_t>(int64_t{Load<int32_t>(bytes + layout_.frame_instruction)});
  }
  return frame;
}

bool PythonReader::InnermostFrame(const Thread& thread, const uint8_t* copy, uint64_t* frame) const {
  const uint8_t* state = Find(copy, thread.address + layout_.thread_frame, 8);
  if (state == nullptr) return false;
  *frame = Load<uint64_t>(state);
  if (!Has(layout_.cframe_frame)) return true;
  if (*frame == 0) return true;
  const uint8_t* cframe = Find(copy, *frame + layout_.cframe_frame, 8);
  if (cframe == nullptr) return false;
  *frame = Load<uint64_t>(cframe);
  return true;
}

// Finds the chunks from the data in the copy; false if the copy lacks some of them.
bool PythonReader::FindChunks(const uint8_t* copy, Thread* thread) {
  if (!Has(layout_.thread_chunk)) return true;
  const uint8_t* state = Find(copy, thread->address + layout_.thread_chunk, 16);
  if (state == nullptr) return false;
  uint64_t chunk = Load<uint64_t>(state);
  const uint64_t top = Load<uint64_t>(state + 8);
  std::vector<std::pair<uint64_t, size_t>> chunks;
  bool complete = true;
  for (size_t used = 0; chunk != 0 && chunks.size() < kMostChunks;) {
    if (!IsPointer(chunk)) break;
    PythonChunk header;
    if (const uint8_t* known = Find(copy, chunk, sizeof(header))) {
      std::memcpy(&header, known, sizeof(header));
    } else {
      complete = false;
      if (!Read(chunk, &header, sizeof(header))) break;
    }
    uint64_t size = chunks.empty() ? top - chunk : sizeof(header) + header.top * 8;
    if (size < sizeof(header)) size = sizeof(header);
    if (size > header.size || size > kMaxCopyBytes) break;
    // Adds room for further calls: up to the size at the last sample, else 512 bytes within the page, which is mapped.
    if (chunks.empty()) {
      size = std::min<uint64_t>({size + 512, (size + kReadBytes - 1) / kReadBytes * kReadBytes, header.size});
      const auto& before = thread->places.chunks;
      if (!before.empty() && before[0].first == chunk &&
          before[0].second <= std::min<uint64_t>(header.size, kKeptChunkBytes)) {
        size = std::max<uint64_t>(size, before[0].second);
      }
    }
    if ((used += size) > kMaxCopyBytes) break;
    if (Find(copy, chunk, chunks.empty() ? std::min<uint64_t>(top - chunk, size) : size) == nullptr) complete = false;
    chunks.emplace_back(chunk, size);
    chunk = header.previous;
  }
  thread->places.chunks = std::move(chunks);
  return complete;
}

// Follows the frames of a copy into raw_. Frames that the copy lacks are read now, and copied in the next attempt.
PythonReader::Attempt PythonReader::Walk(Thread* thread, const uint8_t* copy) {
  raw_.clear();
  bool complete = FindChunks(copy, thread);
  uint64_t address = 0;
  const uint8_t* state = Find(copy, thread->address + layout_.thread_frame, 8);
  if (Has(layout_.cframe_frame)) {
    const uint64_t cframe = Load<uint64_t>(state);
    if (cframe != 0 && Find(copy, cframe + layout_.cframe_frame, 8) == nullptr) {
      if (!IsPointer(cframe)) return Attempt::kUnreadable;
      auto& cframes = thread->places.cframes;
      cframes.insert(cframes.begin(), cframe);
      if (cframes.size() > kKeptCFrames) cframes.pop_back();
      return Attempt::kAgain;
    }
  }
  if (!InnermostFrame(*thread, copy, &address)) return Attempt::kAgain;
  const auto in_chunk = [&](uint64_t frame) {
    return std::any_of(thread->places.chunks.begin(), thread->places.chunks.end(), [&](const auto& chunk) {
      return frame - chunk.first < chunk.second && layout_.frame_size <= chunk.second - (frame - chunk.first);
    });
  };
  std::vector<uint64_t> outside;
  std::vector<uint8_t> single(layout_.frame_size);
  while (address != 0) {
    if (raw_.size() == kMaxFrames || !IsPointer(address)) return Attempt::kUnreadable;
    const uint8_t* bytes = Find(copy, address, layout_.frame_size);
    if (!in_chunk(address)) {
      if (outside.size() == kMaxOutside) return Attempt::kUnreadable;
      outside.push_back(address);
    }
    if (bytes == nullptr) {
      complete = false;
      if (!Read(address, single.data(), single.size())) return Attempt::kUnreadable;
      bytes = single.data();
    }
    raw_.push_back(ParseFrame(address, bytes));
    address = raw_.back().previous;
  }
  // Keeps the addresses of earlier frames: functions that are called repeatedly reuse them.
  const size_t used = outside.size();
  for (uint64_t before : thread->places.frames) {
    if (outside.size() >= std::min(used + kKeptFrames, kMaxOutside)) break;
    if (!in_chunk(before) && std::find(outside.begin(), outside.end(), before) == outside.end())
      outside.push_back(before);
  }
  thread->places.frames = std::move(outside);
  return complete ? Attempt::kAccepted : Attempt::kAgain;
}

size_t PythonReader::CommonFrames(const uint8_t* copy) const {
  size_t common = 0;
  while (common < raw_.size()) {
    const RawFrame& frame = raw_[raw_.size() - 1 - common];
    const uint8_t* bytes = Find(copy, frame.address, layout_.frame_size);
    if (bytes == nullptr) break;
    const RawFrame other = ParseFrame(frame.address, bytes);
    if (other.code != frame.code || other.previous != frame.previous || other.owner != frame.owner) break;
    ++common;
    // The frame ran on between the copies: the frames that it calls belong to another call by now.
    if (other.instruction != frame.instruction) break;
  }
  return common;
}

PythonReader::Attempt PythonReader::ResolvePart(bool cut, std::vector<Frame>* frames) {
  const auto code_frames = [this](size_t outer) {
    return static_cast<size_t>(std::count_if(raw_.end() - static_cast<ptrdiff_t>(outer), raw_.end(),
                                             [](const RawFrame& frame) { return PythonFrameRunsCode(frame.owner); }));
  };
  if (ResolveCodes(frames) == Attempt::kAccepted) {
    const size_t sure = calls_.Sure(*frames, code_frames(common_));
    if (sure == 0 || (sure < frames->size() && !cut)) return Attempt::kTorn;
    frames->erase(frames->begin(), frames->end() - static_cast<ptrdiff_t>(sure));
    return Attempt::kAccepted;
  }
  frames->clear();
  if (!cut || code_frames(common_) == 0) return Attempt::kTorn;
  raw_.erase(raw_.begin(), raw_.end() - static_cast<ptrdiff_t>(common_));
  return ResolveCodes(frames);
}

// A state gets the ids of its thread before that thread runs in it: ids from ListThreads may be older than the frames.
bool PythonReader::TakeIds(Thread* thread) const {
  for (const auto& [offset, id] :
       {std::pair(layout_.thread_id, &thread->thread_id), std::pair(layout_.thread_native_id, &thread->native_id)}) {
    if (!Has(offset)) continue;
    const uint8_t* const now = Find(bytes_.data(), thread->address + offset, 8);
    if (now == nullptr) return false;
    *id = Load<uint64_t>(now);
  }
  return true;
}

PythonReader::Attempt PythonReader::TryCopy(Thread* thread) {
  if (!PlaceRegions(*thread)) return Attempt::kUnreadable;
  if (bytes_.size() < copy_bytes_) bytes_.resize(copy_bytes_);
  const int64_t got = read_(bytes_.data(), ranges_);
  if (got != static_cast<int64_t>(copy_bytes_)) {
    // One of the remembered addresses is not mapped any more.
    if (got < 0) error_ = static_cast<int>(-got);
    const bool forgotten = regions_.size() > 1;
    thread->places = {};
    return forgotten ? Attempt::kAgain : Attempt::kUnreadable;
  }
  // Walks the second copy: it is made after the read of the pointer to the innermost frame, which the first may lack.
  const Attempt walked = Walk(thread, bytes_.data() + copy_bytes_);
  if (walked != Attempt::kAccepted) return walked;
  common_ = CommonFrames(bytes_.data());
  if (!TakeIds(thread)) return Attempt::kTorn;
  // While this thread was switched out, the target may have left the stack and returned to a part of it: new generators
  // reuse the addresses of old ones. Without this check, one stack in 1,000 with nested generators was wrong on a busy
  // machine.
  if (const int64_t now = ContextSwitches(); now != switches_ && !is_still_) {
    switches_ = now;
    return Attempt::kTorn;
  }
  // A running generator has a caller: an outermost generator frame means that the stack is torn.
  if (!raw_.empty() && raw_.back().owner == kPythonOwnedByGenerator) return Attempt::kTorn;
  return Attempt::kAccepted;
}

PythonReader::Result PythonReader::ReadStack(Thread* thread, std::vector<Frame>* frames) {
  frames->clear();
  error_ = 0;
  if (Has(layout_.cframe_frame) && thread->places.cframes.empty() && IsPointer(thread->frame)) {
    thread->places.cframes = {thread->frame};
  }
  switches_ = ContextSwitches();
  Result result = Result::kTorn;
  for (int attempt = 0, torn = 0; attempt < kMaxAttempts && torn < kMaxTorn; ++attempt) {
    Attempt outcome = TryCopy(thread);
    const bool whole = common_ == raw_.size();
    if (outcome == Attempt::kAccepted)
      outcome = whole ? ResolveCodes(frames) : ResolvePart(torn >= kTornBeforeCut, frames);
    if (outcome == Attempt::kAccepted) {
      if (whole) calls_.Add(*frames);
      return Result::kRead;
    }
    frames->clear();
    if (outcome == Attempt::kAgain) continue;
    if (outcome == Attempt::kUnreadable) thread->places.frames.clear();
    result = outcome == Attempt::kTorn ? Result::kTorn : Result::kUnreadable;
    ++torn;
  }
  if (result == Result::kUnreadable && error_ == 0 && checked_ < kFramesToCheck) {
    ++checked_;
    ++wrong_;
  }
  return result;
}

PythonReader::SelfCheck PythonReader::self_check() const {
  if (checked_ < kFramesToCheck) return SelfCheck::kPending;
  return wrong_ * 4 > checked_ ? SelfCheck::kFailed : SelfCheck::kPassed;
}

uint64_t PythonReader::ThreadStartFrame(const std::vector<Frame>& frames) const {
  if (frames.empty() || !thread_starts_.contains(frames.back().code)) return 0;
  const auto outermost =
      std::find_if(raw_.rbegin(), raw_.rend(), [](const RawFrame& frame) { return PythonFrameRunsCode(frame.owner); });
  return outermost == raw_.rend() ? 0 : outermost->address;
}

// ---- code objects

PythonReader::Fingerprint PythonReader::ParseCode(const uint8_t* bytes) const {
  Fingerprint print;
  print.type = Load<uint64_t>(bytes + layout_.object_type);
  print.file = Load<uint64_t>(bytes + layout_.code_file);
  print.name = Load<uint64_t>(bytes + layout_.code_name);
  print.qualname = Has(layout_.code_qualname) ? Load<uint64_t>(bytes + layout_.code_qualname) : 0;
  print.table = Load<uint64_t>(bytes + layout_.code_table);
  print.bytes = Load<uint64_t>(bytes + layout_.code_bytes);
  print.first_line = Load<int32_t>(bytes + layout_.code_first_line);
  return print;
}

// Checks every code object again with every stack: its memory may belong to another object by now.
PythonReader::Attempt PythonReader::ResolveCodes(std::vector<Frame>* frames) {
  std::vector<uint64_t> addresses;
  for (const RawFrame& frame : raw_) {
    if (frame.owner > kPythonLastWithoutCode) return Attempt::kUnreadable;
    if (PythonFrameRunsCode(frame.owner)) addresses.push_back(frame.code);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  code_copy_.resize(std::max(code_copy_.size(), addresses.size() * code_bytes_));
  for (size_t at = 0; at < addresses.size();) {
    const size_t count = std::min(addresses.size() - at, kMaxMemoryRanges);
    ranges_.clear();
    for (size_t i = 0; i < count; ++i) {
      if (!IsPointer(addresses[at + i])) return Attempt::kUnreadable;
      ranges_.push_back(MemoryRange(addresses[at + i], code_bytes_));
    }
    const int64_t got = read_(&code_copy_[at * code_bytes_], ranges_);
    if (got != static_cast<int64_t>(count * code_bytes_)) return Attempt::kUnreadable;
    at += count;
  }
  std::vector<const KnownCode*> known(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Fingerprint print = ParseCode(&code_copy_[i * code_bytes_]);
    const auto found = codes_.find(addresses[i]);
    const bool same = found != codes_.end() && found->second.fingerprint == print;
    known[i] = same ? &found->second : ReadCode(addresses[i], &code_copy_[i * code_bytes_], print);
    if (known[i] == nullptr) return Attempt::kUnreadable;
  }
  for (const RawFrame& frame : raw_) {
    if (!PythonFrameRunsCode(frame.owner)) continue;
    const size_t index =
        static_cast<size_t>(std::lower_bound(addresses.begin(), addresses.end(), frame.code) - addresses.begin());
    int64_t instruction = static_cast<int64_t>(frame.instruction);
    if (Has(layout_.code_instructions)) {
      instruction -= static_cast<int64_t>(frame.code + layout_.code_instructions);
    } else if (layout_.minor == 10) {
      instruction *= 2;  // f_lasti counts instructions in 3.10
    }
    if (instruction < -2 || instruction > known[index]->instruction_bytes) return Attempt::kUnreadable;
    frames->push_back({known[index]->number, static_cast<int32_t>(instruction < 0 ? -1 : instruction)});
    if (checked_ < kFramesToCheck) ++checked_;
  }
  // A running generator has a caller. From 3.11 on, TryCopy checks this with the frame's owner.
  if (!raw_.empty() && !Has(layout_.frame_owner)) {
    const size_t index =
        static_cast<size_t>(std::lower_bound(addresses.begin(), addresses.end(), raw_.back().code) - addresses.begin());
    if (known[index]->generator) return Attempt::kTorn;
  }
  return Attempt::kAccepted;
}

const PythonReader::KnownCode* PythonReader::ReadCode(uint64_t address, const uint8_t* bytes,
                                                      const Fingerprint& print) {
  if (codes_.size() >= kMaxCodes && !codes_.contains(address)) return nullptr;
  if (!IsCodeType(print.type) || print.first_line < 0) return nullptr;
  Code code;
  code.first_line = print.first_line;
  const std::optional<std::string> file = ReadText(print.file);
  const std::optional<std::string> name = ReadText(print.qualname != 0 ? print.qualname : print.name);
  if (!file || !name || !ReadTable(print.table, &code)) return nullptr;
  int64_t instruction_bytes;
  if (Has(layout_.code_instructions)) {
    instruction_bytes = static_cast<int64_t>(print.bytes & 0xffffffff) * 2;
  } else if (!IsPointer(print.bytes) || !Read(print.bytes + layout_.bytes_size, &instruction_bytes, 8)) {
    return nullptr;
  }
  code.number = ++code_count_;
  code.file = *file;
  code.name = *name;
  // `_bootstrap` of threading.Thread; up to 3.10 the name lacks the class.
  if ((name->ends_with("._bootstrap") || *name == "_bootstrap") && file->ends_with("/threading.py")) {
    thread_starts_.insert(code.number);
  }
  new_codes_.push_back(std::move(code));
  KnownCode& known = codes_[address];
  // CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
  known = {print, code_count_, instruction_bytes, (Load<uint32_t>(bytes + layout_.code_flags) & 0x2a0) != 0};
  return &known;
}

bool PythonReader::IsCodeType(uint64_t type) {
  if (code_type_ != 0) return type == code_type_;
  uint64_t name = 0;
  char text[5] = {};
  if (!IsPointer(type) || !Read(type + layout_.type_name, &name, 8) || !Read(name, text, 5)) return false;
  if (std::memcmp(text, "code", 5) != 0) return false;
  code_type_ = type;
  return true;
}

std::optional<std::string> PythonReader::ReadText(uint64_t address) {
  return ReadPythonText(layout_, address, kMaxTextBytes,
                        [this](uint64_t from, void* out, size_t size) { return Read(from, out, size); });
}

bool PythonReader::ReadTable(uint64_t address, Code* code) {
  int64_t size = 0;
  if (!IsPointer(address) || !Read(address + layout_.bytes_size, &size, 8) || size < 0 || size > 1 << 28) return false;
  if (static_cast<uint64_t>(size) > kMaxTableBytes) {
    code->table_too_long = true;
    return true;
  }
  code->table.resize(static_cast<size_t>(size));
  return size == 0 || Read(address + layout_.bytes_data, code->table.data(), code->table.size());
}

}  // namespace tbprof
