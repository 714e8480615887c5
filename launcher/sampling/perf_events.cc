// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/perf_events.h"

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr uint64_t kSampleType = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
// Room for 15, 7 and 3 samples. A smaller size is used if the user may not lock as much memory.
constexpr size_t kRingSizes[] = {128 << 10, 64 << 10, 32 << 10};
constexpr size_t kTrailerBytes = 16;  // at the end of all records but samples: pid, tid, time

// The kernel's register numbers in the order of StackSnapshot::registers.
#if defined(__x86_64__)
constexpr int kRegisters[] = {PERF_REG_X86_BX,  PERF_REG_X86_BP,  PERF_REG_X86_R12, PERF_REG_X86_R13,
                              PERF_REG_X86_R14, PERF_REG_X86_R15, PERF_REG_X86_SP,  PERF_REG_X86_IP};
constexpr size_t kStackPointer = 6;
#elif defined(__aarch64__)
constexpr int kRegisters[] = {PERF_REG_ARM64_X19, PERF_REG_ARM64_X20, PERF_REG_ARM64_X21, PERF_REG_ARM64_X22,
                              PERF_REG_ARM64_X23, PERF_REG_ARM64_X24, PERF_REG_ARM64_X25, PERF_REG_ARM64_X26,
                              PERF_REG_ARM64_X27, PERF_REG_ARM64_X28, PERF_REG_ARM64_X29, PERF_REG_ARM64_LR,
                              PERF_REG_ARM64_SP,  PERF_REG_ARM64_PC};
constexpr size_t kStackPointer = 12;
#endif
constexpr size_t kRegisterCount = std::size(kRegisters);
static_assert(kRegisterCount <= StackSnapshot::kMaxRegisters);

constexpr uint64_t RegisterMask() {
  uint64_t mask = 0;
  for (const int number : kRegisters) mask |= uint64_t{1} << number;
  return mask;
}

// The kernel writes the registers of the mask by ascending number.
constexpr size_t PlaceOf(int number) {
  return static_cast<size_t>(std::popcount(RegisterMask() & ((uint64_t{1} << number) - 1)));
}

// Takes values from the front of a record.
class Fields {
 public:
  explicit Fields(std::span<const uint8_t> bytes) : left_(bytes) {}

  template <typename T>
  bool Take(T* value) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(value, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return true;
  }
  size_t left() const { return left_.size(); }
  bool TakeBytes(uint64_t size, std::span<const uint8_t>* bytes) {
    if (left_.size() < size) return false;
    *bytes = left_.first(size);
    left_ = left_.subspan(size);
    return true;
  }

 private:
  std::span<const uint8_t> left_;
};

bool ParseSample(Fields fields, PerfRecord* record) {
  uint64_t abi = 0, stack_size = 0, copied = 0;
  if (!fields.Take(&record->pid) || !fields.Take(&record->tid) || !fields.Take(&record->time_ns)) return false;
  if (!fields.Take(&abi)) return false;
  if (abi != PERF_SAMPLE_REGS_ABI_NONE) {
    uint64_t values[kRegisterCount];
    if (!fields.Take(&values)) return false;
    if (abi == PERF_SAMPLE_REGS_ABI_64) {
      for (size_t i = 0; i < kRegisterCount; ++i) record->snapshot.registers[i] = values[PlaceOf(kRegisters[i])];
      record->snapshot.register_count = kRegisterCount;
      record->snapshot.stack_address = record->snapshot.registers[kStackPointer];
    }
  }
  std::span<const uint8_t> stack;
  if (!fields.Take(&stack_size) || !fields.TakeBytes(stack_size, &stack)) return false;
  if (stack_size != 0 && (!fields.Take(&copied) || copied > stack_size)) return false;
  record->snapshot.stack = stack.data();
  record->snapshot.stack_size = copied;
  return true;
}

// The path is zero-terminated, and the trailer follows it.
bool ParseMapping(Fields fields, PerfRecord* record) {
  uint32_t device[2], access[2];
  uint64_t generation;
  if (!fields.Take(&record->pid) || !fields.Take(&record->tid) || !fields.Take(&record->address) ||
      !fields.Take(&record->length) || !fields.Take(&record->offset) || !fields.Take(&device) ||
      !fields.Take(&record->inode) || !fields.Take(&generation) || !fields.Take(&access)) {
    return false;
  }
  std::span<const uint8_t> path;
  if (fields.left() < kTrailerBytes || !fields.TakeBytes(fields.left() - kTrailerBytes, &path)) return false;
  record->path.assign(path.begin(), std::find(path.begin(), path.end(), uint8_t{0}));
  return true;
}

int OpenEvent(const PerfEvent::Options& options) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_TASK_CLOCK;
  attr.sample_period = std::max<uint64_t>(options.period_ns, 1);
  attr.sample_type = kSampleType;
  attr.sample_regs_user = RegisterMask();
  attr.sample_stack_user = kPerfStackBytes;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  attr.sample_id_all = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  attr.task = 1;
  attr.mmap = 1;
  attr.mmap2 = 1;
  attr.comm = 1;
  attr.comm_exec = 1;
  // Disables wakeups: no thread waits for the event.
  attr.watermark = 1;
  attr.wakeup_watermark = UINT32_MAX;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, options.tid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

bool ParsePerfRecord(std::span<const uint8_t> bytes, PerfRecord* record) {
  *record = {};
  perf_event_header header;
  Fields fields(bytes);
  if (!fields.Take(&header) || header.size != bytes.size()) return false;
  if (header.type == PERF_RECORD_SAMPLE) {
    record->kind = PerfRecord::kSample;
    return ParseSample(fields, record);
  }
  if (bytes.size() < sizeof(header) + kTrailerBytes) return false;
  std::memcpy(&record->time_ns, bytes.data() + bytes.size() - sizeof(record->time_ns), sizeof(record->time_ns));
  int32_t parent = 0;
  switch (header.type) {
    case PERF_RECORD_LOST: {
      uint64_t id;
      record->kind = PerfRecord::kLost;
      return fields.Take(&id) && fields.Take(&record->lost);
    }
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      record->kind = header.type == PERF_RECORD_FORK ? PerfRecord::kNewThread : PerfRecord::kExit;
      return fields.Take(&record->pid) && fields.Take(&parent) && fields.Take(&record->tid);
    case PERF_RECORD_COMM:
      if ((header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0) record->kind = PerfRecord::kExec;
      return fields.Take(&record->pid) && fields.Take(&record->tid);
    case PERF_RECORD_MMAP2:
      record->kind = PerfRecord::kMapped;
      return ParseMapping(fields, record);
    default:
      return true;
  }
}

uint64_t ReadPerfRing(std::span<const uint8_t> ring, uint64_t tail, uint64_t head, std::vector<uint8_t>* scratch,
                      uint64_t* corrupt, const std::function<void(const PerfRecord&)>& take) {
  const uint64_t mask = ring.size() - 1;
  if (ring.empty() || head - tail > ring.size()) {
    ++*corrupt;
    return head;
  }
  // Copies a range that may wrap around the end of the buffer.
  const auto copy = [&](uint64_t from, uint8_t* out, size_t size) {
    const size_t at = from & mask;
    const size_t first = std::min(size, ring.size() - at);
    std::memcpy(out, ring.data() + at, first);
    std::memcpy(out + first, ring.data(), size - first);
  };
  while (head - tail >= sizeof(perf_event_header)) {
    perf_event_header header;
    copy(tail, reinterpret_cast<uint8_t*>(&header), sizeof(header));
    if (header.size < sizeof(header) || header.size > head - tail) break;
    scratch->resize(header.size);
    copy(tail, scratch->data(), header.size);
    PerfRecord record;
    if (ParsePerfRecord(*scratch, &record)) {
      take(record);
    } else {
      ++*corrupt;
    }
    tail += header.size;
  }
  if (tail != head) ++*corrupt;
  return head;
}

std::unique_ptr<PerfEvent> PerfEvent::Open(const Options& options, int* error) {
  std::unique_ptr<PerfEvent> event(new PerfEvent);
  event->fd_.Reset(OpenEvent(options));
  event->period_ns_ = std::max<uint64_t>(options.period_ns, 1);
  *error = event->fd_.valid() ? 0 : errno;
  if (*error != 0) return nullptr;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t ring : kRingSizes) {
    if (options.small && ring != *std::rbegin(kRingSizes)) continue;
    const size_t size = std::max(ring, page) + page;
    event->mapping_ = ScopedMapping(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd_.get(), 0), size);
    if (event->mapping_.valid()) {
      *error = 0;  // that of a larger ring
      return event;
    }
    *error = errno;
    if (*error != EPERM) break;
    *error = ENOBUFS;  // the user's limit of locked memory, not a refusal of the event
  }
  return nullptr;
}

void PerfEvent::Read(const std::function<void(const PerfRecord&)>& take) {
  auto* const page = static_cast<perf_event_mmap_page*>(mapping_.data());
  const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  const uint64_t tail = page->data_tail;
  if (head == tail) return;
  const auto offset = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::span<const uint8_t> ring(static_cast<const uint8_t*>(mapping_.data()) + offset, mapping_.size() - offset);
  const uint64_t read = ReadPerfRing(ring, tail, head, &scratch_, &corrupt_, take);
  __atomic_store_n(&page->data_tail, read, __ATOMIC_RELEASE);
}

uint64_t PerfEvent::CpuNs() const {
  uint64_t count = 0;
  return read(fd_.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
}

std::optional<PerfEvent::Change> PerfEvent::SetPeriod(uint64_t period_ns) {
  const uint64_t now_ns = CpuNs();
  period_ns = std::max<uint64_t>(period_ns, 1);
  if (ioctl(fd_.get(), PERF_EVENT_IOC_PERIOD, &period_ns) != 0) return std::nullopt;
  Change change;
  change.cpu_ns = now_ns > period_set_ns_ ? now_ns - period_set_ns_ : 0;
  change.cut_ns = change.cpu_ns % period_ns_;
  period_ns_ = period_ns;
  period_set_ns_ = now_ns;
  return change;
}

void PerfEvent::Pause() { ioctl(fd_.get(), PERF_EVENT_IOC_DISABLE, 0); }
void PerfEvent::Resume() { ioctl(fd_.get(), PERF_EVENT_IOC_ENABLE, 0); }

bool PerfEvent::is_small() const { return mapping_.size() < kRingSizes[1]; }

int PerfEventParanoid() {
  int value = INT_MIN;
  if (FILE* file = fopen("/proc/sys/kernel/perf_event_paranoid", "re"); file != nullptr) {
    if (fscanf(file, "%d", &value) != 1) value = INT_MIN;
    fclose(file);
  }
  return value;
}

PerfRefusal ExplainPerfRefusal(int error, int paranoid) {
  switch (error) {
    case EACCES:
    case EPERM:
      // Level 2 permits user-code samples of the user's own processes; some distributions have levels 3 and 4.
      if (paranoid > 2) {
        return {StrCat("perf_event_paranoid is ", paranoid), "as root: sysctl kernel.perf_event_paranoid=2"};
      }
      return {"the kernel does not permit it", "in Docker: --cap-add=PERFMON"};
    case ENOSYS:
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
    case EINVAL:
      return {"the kernel has no such perf events", ""};
    case ENOBUFS:
      return {"too much locked memory", "ulimit -l"};
    case EMFILE:
      return {"too many open files", "ulimit -n"};
    default:
      return {strerror(error), ""};
  }
}

int ProbePerfEvents() {
  int error = 0;
  PerfEvent::Open({.tid = static_cast<pid_t>(syscall(SYS_gettid)), .period_ns = 1'000'000'000}, &error);
  return error;
}

}  // namespace tbprof
