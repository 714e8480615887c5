// SPDX-License-Identifier: Apache-2.0
//
// Attaches this process to the session: reads the session variable, creates the segment, reports to the launcher. Runs
// once, in the constructor, before main. After any failure the library stays inert: the hooks then only call the real
// functions. Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "preload/address_limit.h"
#include "preload/capture_signal.h"
#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/late_names.h"
#include "preload/modules.h"
#include "preload/page_probe.h"
#include "preload/python.h"
#include "preload/record.h"
#include "preload/resolve.h"
#include "preload/sanitizers.h"
#include "preload/state.h"
#include "preload/triggers.h"
#include "wire/library_mark.h"
#include "wire/ranks.h"
#include "wire/raw.h"
#include "wire/rendezvous.h"

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif
#ifndef MFD_ALLOW_SEALING
#define MFD_ALLOW_SEALING 2u
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace tbprof {
namespace {

constexpr uint64_t kUnlimitedStack = 64ull << 20;
[[gnu::used]] constexpr LibraryMark kMark;

const char* FindVariable(char** environment, const char* name) {
  if (environment == nullptr) return nullptr;
  for (; *environment != nullptr; ++environment) {
    const char* entry = *environment;
    size_t i = 0;
    while (name[i] != '\0' && entry[i] == name[i]) ++i;
    if (name[i] == '\0' && entry[i] == '=') return entry + i + 1;
  }
  return nullptr;
}

// `text`: may be null.
bool HasText(const char* text, const char* part) {
  for (; text != nullptr && *text != '\0'; ++text) {
    size_t i = 0;
    while (part[i] != '\0' && text[i] == part[i]) ++i;
    if (part[i] == '\0') return true;
  }
  return false;
}

bool IsError(long result) { return result < 0 && result > -4096; }

// Why no segment can be created; `reason` 0: no obstacle.
struct Obstacle {
  uint32_t reason;  // InertReason
  int32_t error;
};
Obstacle Because(InertReason reason, long result = 0) {
  return {static_cast<uint32_t>(reason), static_cast<int32_t>(-result)};
}

// False: the limit is not known, or there is none.
bool HasLimit(int resource, rlimit* limit) {
  return !IsError(raw::Call(SYS_prlimit64, 0, resource, 0, raw::Pointer(limit))) && limit->rlim_cur != RLIM_INFINITY;
}

// Largest number of chunks, at most `wanted`, that the limits of this process allow; 0: none.
uint32_t AllowedChunks(uint32_t wanted, Obstacle* obstacle) {
  uint64_t limit = UINT64_MAX;
  InertReason cause = InertReason::kFileLimit;
  rlimit value;
  // Growing a file beyond RLIMIT_FSIZE kills with SIGXFSZ; a mapping must leave the program most of its address space.
  if (HasLimit(RLIMIT_FSIZE, &value)) limit = value.rlim_cur;
  if (HasLimit(RLIMIT_AS, &value) && value.rlim_cur / 8 < limit) {
    limit = value.rlim_cur / 8;
    cause = InertReason::kAddressLimit;
  }
  if (wanted > kMaxChunks) wanted = kMaxChunks;
  if (wanted < kMinChunks) wanted = kMinChunks;
  while (LayoutFor(wanted).bytes > limit) {
    if (wanted == kMinChunks) {
      *obstacle = Because(cause);
      return 0;
    }
    wanted /= 2;
    if (wanted < kMinChunks) wanted = kMinChunks;
  }
  return wanted;
}

// Maps at a multiple of kFaultAround if enough address space can be reserved for the alignment, else at any address.
long MapAligned(int fd, long bytes) {
  constexpr long kAround = static_cast<long>(kFaultAround);
  const long room =
      raw::Call(SYS_mmap, 0, bytes + kAround, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (IsError(room)) {
    return raw::Call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  const long at = (room + kAround - 1) / kAround * kAround;
  const long address =
      raw::Call(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (IsError(address)) {
    raw::Call(SYS_munmap, room, bytes + kAround);
    return address;
  }
  if (at > room) raw::Call(SYS_munmap, room, at - room);
  if (at < room + kAround) raw::Call(SYS_munmap, at + bytes, room + kAround - at);
  return address;
}

// Creates, seals and maps the segment. Returns its descriptor, and its address in *base; negative: error.
int MakeSegment(uint32_t chunks, void** base, Obstacle* obstacle) {
  const uint64_t bytes = LayoutFor(chunks).bytes;
  const long fd = raw::Call(SYS_memfd_create, raw::Pointer("tbprof"), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (IsError(fd)) {
    *obstacle = Because(InertReason::kMemfd, fd);
    return -1;
  }
  long result = raw::Call(SYS_ftruncate, fd, static_cast<long>(bytes));
  if (!IsError(result)) {
    result = raw::Call(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  }
  if (IsError(result)) {
    *obstacle = Because(InertReason::kSize, result);
    raw::Close(static_cast<int>(fd));
    return -1;
  }
  const long address = MapAligned(static_cast<int>(fd), static_cast<long>(bytes));
  if (IsError(address)) {
    *obstacle = Because(InertReason::kMap, address);
    raw::Close(static_cast<int>(fd));
    return -1;
  }
  // Keeps the segment out of the program's core files.
  raw::Call(SYS_madvise, address, static_cast<long>(bytes), MADV_DONTDUMP);
  *base = reinterpret_cast<void*>(address);
  return static_cast<int>(fd);
}

bool Connect(int socket, const char* path, bool abstract) {
  sockaddr_un address;
  for (size_t i = 0; i < sizeof(address); ++i) reinterpret_cast<char*>(&address)[i] = 0;
  address.sun_family = AF_UNIX;
  size_t length = 0;
  char* out = address.sun_path + (abstract ? 1 : 0);
  while (path[length] != '\0') {
    out[length] = path[length];
    ++length;
  }
  const long size = static_cast<long>(offsetof(sockaddr_un, sun_path) + length + 1);
  return !IsError(raw::Call(SYS_connect, socket, raw::Pointer(&address), size));
}

// Accepts only a launcher that runs as root or as this process's real or effective user. After the launcher has ended,
// any process may bind its socket name, and a target that outlives the launcher still has that name.
bool IsOfLauncher(int socket, ucred* peer) {
  socklen_t size = sizeof(*peer);
  if (IsError(raw::Call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, raw::Pointer(peer), raw::Pointer(&size)))) {
    return false;
  }
  return peer->uid == 0 || peer->uid == static_cast<uid_t>(raw::Call(SYS_geteuid)) ||
         peer->uid == static_cast<uid_t>(raw::Call(SYS_getuid));
}

// Connects to the launcher; negative: no connection.
int Dial(const SessionVariable& session, ucred* launcher) {
  constexpr bool kAbstract[] = {false, true};
  for (const bool abstract : kAbstract) {
    const long socket = raw::Call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (IsError(socket)) return -1;
    const int fd = static_cast<int>(socket);
    if (Connect(fd, session.socket_path, abstract) && IsOfLauncher(fd, launcher)) return fd;
    raw::Close(fd);
  }
  return -1;
}

// `segment_fd` < 0: sent without a descriptor. A negative result is an error number.
long Send(int socket, void* data, size_t size, int segment_fd) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (segment_fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(rights)) = segment_fd;
  }
  return raw::Call(SYS_sendmsg, socket, raw::Pointer(&message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void SendInert(const SessionVariable& session, int socket, const Obstacle& obstacle) {
  InertNotice notice{kInertMagic, kAbiVersion, raw::GetPid(), session.nonce, obstacle.reason, obstacle.error};
  Send(socket, &notice, sizeof(notice), -1);
}

void ReportInert(const SessionVariable& session, const Obstacle& obstacle) {
  ucred launcher{};
  const int socket = Dial(session, &launcher);
  if (socket < 0) return;
  SendInert(session, socket, obstacle);
  raw::Close(socket);
}

// *launcher_pid: the launcher's pid as this process sees it; 0 in a pid namespace that does not show the launcher.
bool SendHello(const SessionVariable& session, const Segment& segment, int segment_fd, int* launcher_pid) {
  *launcher_pid = 0;
  ucred launcher{};
  const int socket = Dial(session, &launcher);
  if (socket < 0) return false;
  *launcher_pid = launcher.pid;
  Hello hello{kHelloMagic, kAbiVersion, raw::GetPid(), session.nonce, segment.header->segment_bytes};
  const long result = Send(socket, &hello, sizeof(hello), segment_fd);
  // The user has too many descriptors in flight (ETOOMANYREFS), or a seccomp filter forbids sending one.
  if (IsError(result)) SendInert(session, socket, Because(InertReason::kSend, result));
  raw::Close(socket);
  return result == static_cast<long>(sizeof(hello));
}

void FillOperations(Operation* operations) {
  struct Row {
    const char* name;
    uint32_t family;
    ObjectRole object;
    ResultRole result;
  };
  static constexpr Row kRows[] = {
#define TBPROF_TIMED(family, name, object, result, ...) \
  {#name, kFamily##family, ObjectRole::object, ResultRole::result},
#define TBPROF_CUSTOM(family, name, object, result, ...) \
  {#name, kFamily##family, ObjectRole::object, ResultRole::result},
#define TBPROF_RENAMED(family, name, object, result, type, parameters, arguments, title) \
  {#title, kFamily##family, ObjectRole::object, ResultRole::result},
#define TBPROF_TITLED TBPROF_RENAMED
#define TBPROF_UNRECORDED(...)
#include "preload/hooks.def"
  };
  for (uint32_t i = 0; i < kOperationCount; ++i) {
    const size_t length = TextLength(kRows[i].name, sizeof(operations[i].name) - 1);
    for (size_t j = 0; j < length; ++j) operations[i].name[j] = kRows[i].name[j];
    operations[i].family = kRows[i].family;
    operations[i].object = kRows[i].object;
    operations[i].result = kRows[i].result;
  }
}

void OnThreadExit(void* value) {
  auto* thread = static_cast<ThreadState*>(value);
  if (thread != &t_thread) return;
  // Destructors of other keys may still allocate and lock, so the thread stays registered until the last round.
  if (++thread->exit_rounds < 4) {
    pthread_setspecific(g_attachment.exit_key, value);
    return;
  }
  EndThread(thread);
}

void RecordProcess(ThreadState* thread, int argc, char** argv, char** environment, const SessionVariable& session,
                   const char* executable, size_t executable_length) {
  RecordProcessInfo(thread, ProcessInfoKey::kExecutable, executable, executable_length);
  if (session.record_arguments != 0) {
    constexpr int kMaxArguments = 256;
    for (int i = 0; i < argc && i < kMaxArguments; ++i) {
      RecordProcessInfo(thread, ProcessInfoKey::kArgument, argv[i], TextLength(argv[i], 128 * 1024));
    }
  }
  for (const char* name : kRankVariables) {
    const char* value = FindVariable(environment, name);
    if (value == nullptr) continue;
    // `value` points into the entry, which begins with the name and `=`.
    const size_t name_length = TextLength(name, 64);
    const char* entry = value - name_length - 1;
    RecordProcessInfo(thread, ProcessInfoKey::kRank, entry, TextLength(entry, 4096));
  }
}

// Checks which hooks the program really calls: the loader must find this library's function for the program. A program
// with its own allocator (linked statically or preloaded before this library) never calls the allocator hooks.
class SelfTest {
 public:
  // Looks up from the program's handle: in a library linked with -Bsymbolic, RTLD_DEFAULT finds the library's own
  // functions.
  SelfTest() : program_(dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD)) {}

  struct Function {
    const char* name;
    const void* hook;
  };
  // The first function whose look-up does not return a stub of the program decides.
  template <size_t count>
  bool FindsOurs(uint32_t family, const Function (&functions)[count]) {
    for (const Function& function : functions) {
      void* const found = program_ == nullptr ? nullptr : RealDlsym(program_, function.name);
      if (found == function.hook) return true;
      if (found != nullptr && IsStub(found)) continue;
      missed_ |= family;
      if (count_ < kMost) others_[count_++] = {function.name, found};
      return false;
    }
    return true;
  }
  uint32_t missed() const { return missed_; }

  void RecordInterposers(ThreadState* thread) const {
    if (count_ == 0) return;
    Dl_info own;
    const void* program = dladdr(reinterpret_cast<void*>(getauxval(AT_ENTRY)), &own) != 0 ? own.dli_fbase : nullptr;
    for (uint32_t i = 0; i < count_; ++i) {
      Dl_info info;
      if (others_[i].found == nullptr || dladdr(others_[i].found, &info) == 0 || info.dli_fname == nullptr) continue;
      char text[256];
      size_t length = 0;
      const char* const parts[] = {others_[i].name, "=", info.dli_fbase == program ? "" : info.dli_fname};
      for (const char* from : parts) {
        for (; *from != '\0' && length < sizeof(text); ++from) text[length++] = *from;
      }
      RecordProcessInfo(thread, ProcessInfoKey::kInterposer, text, length);
    }
  }

 private:
  // A program at a fixed address that takes a function's address contains a stub for the function, and the loader
  // returns the stub's address to all callers. The stub does not show which function it calls.
  static bool IsStub(const void* function) {
    Dl_info info;
    void* symbol = nullptr;
    return dladdr1(function, &info, &symbol, RTLD_DL_SYMENT) != 0 && symbol != nullptr &&
           static_cast<const ElfW(Sym)*>(symbol)->st_shndx == SHN_UNDEF;
  }

  static constexpr uint32_t kMost = 6;
  struct Other {
    const char* name;
    void* found;
  };
  void* program_;
  uint32_t missed_ = 0;
  uint32_t count_ = 0;
  Other others_[kMost] = {};
};

// execveat, because hardly any program takes its address (IsStub).
void* ExecveatOfTheProgram() {
  void* const program = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
  return program == nullptr ? nullptr : RealDlsym(program, "execveat");
}

bool IsFoundByTheProgram() { return ExecveatOfTheProgram() == reinterpret_cast<const void*>(&Hook_execveat); }

// Whether a copy of this library (another path in LD_PRELOAD) precedes this one. Then the copy records, and this
// library only calls the next function.
bool ComesBehindACopy() {
  void* const found = ExecveatOfTheProgram();
  Dl_info info;
  if (found == nullptr || found == reinterpret_cast<const void*>(&Hook_execveat) || dladdr(found, &info) == 0)
    return false;
  const char* name = info.dli_fname;
  for (const char* at = name; *at != '\0'; ++at) {
    if (*at == '/') name = at + 1;
  }
  size_t i = 0;
  while (kPreloadFileName[i] != '\0' && name[i] == kPreloadFileName[i]) ++i;
  return kPreloadFileName[i] == name[i];
}

// `value`: of PYTHONMALLOC. True: Python allocates small objects with malloc, too.
bool IsPlainAllocator(const char* value) {
  static constexpr char kPlain[] = "malloc";
  for (size_t i = 0; value != nullptr; ++i) {
    if (i == sizeof(kPlain) - 1) return value[i] == '\0' || value[i] == '_';  // malloc, malloc_debug
    if (value[i] != kPlain[i]) return false;
  }
  return false;
}

// A seccomp filter that was installed after the launcher's may kill the process at a system call that the program
// itself never makes. The dynamic linker has already made the system calls that are used here.
uint32_t OwnSeccompFilters() {
  const long fd = raw::Call(SYS_openat, AT_FDCWD, raw::Pointer("/proc/self/status"), O_RDONLY | O_CLOEXEC, 0);
  if (IsError(fd)) return 0;
  // In .bss: the caller's stack may be small.
  static char status[8192];
  const long size = raw::Call(SYS_read, fd, raw::Pointer(status), sizeof(status) - 1);
  raw::Close(static_cast<int>(fd));
  status[IsError(size) ? 0 : size] = '\0';
  return SeccompFilters(status);
}

// Whether this process is to be recorded. If not, it stays silent or reports the reason to the launcher.
bool IsWanted(const SessionVariable& session, char** environment) {
  // NVTX loaded this library into a program that was started without LD_PRELOAD: the program does not call the hooks.
  if (!HasText(FindVariable(environment, kPreloadVariable), kPreloadFileName) && !IsFoundByTheProgram()) return false;
  if (OwnSeccompFilters() > session.seccomp_filters || ComesBehindACopy()) return false;
  if (session.only_child_of != 0 && session.only_child_of != static_cast<uint32_t>(raw::Call(SYS_getppid)))
    return false;
  RankChoice choice;
  const char* ranks = FindVariable(environment, kRanksVariable);
  if (ranks == nullptr || !ParseRankChoice(ranks, &choice) ||
      IsChosen(choice, ReadRank([environment](const char* name) { return FindVariable(environment, name); }))) {
    return true;
  }
  ReportInert(session, Because(InertReason::kNotChosen));
  return false;
}

void Unmap(long address, uint64_t bytes) { raw::Call(SYS_munmap, address, static_cast<long>(bytes)); }

// Maps a page that the kernel zeroes in a fork child. 0: failed; `obstacle` holds the reason.
long MakeForkPage(Obstacle* obstacle) {
  const long page = raw::Call(SYS_mmap, 0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const long wiped = IsError(page) ? page : raw::Call(SYS_madvise, page, kPage, MADV_WIPEONFORK);
  if (!IsError(wiped)) return page;
  *obstacle = Because(InertReason::kForkPage, wiped);
  if (!IsError(page)) Unmap(page, kPage);
  return 0;
}

void FillHeader(const SessionVariable& session, const Segment& segment) {
  SegmentHeader* const header = segment.header;
  header->clock_kind = session.clock_kind;
  header->nonce = session.nonce;
  header->pid = raw::GetPid();
  header->attach_ticks = ReadTicks(static_cast<ClockKind>(session.clock_kind));
  header->attach_monotonic_ns = ReadMonotonic();
  header->wait_threshold_ticks = session.wait_threshold_ticks;
  header->python_wait_ticks = session.python_wait_ticks;
  header->malloc_interval = session.malloc_interval;
  header->sample_stack_bytes = kSnapshotBytes;
  header->malloc_stamp_every = session.malloc_stamp_every;
  header->large_allocation = session.large_allocation;
  header->slow_allocation_ticks = session.slow_allocation_ticks;
  header->gpu_options = session.gpu_options;
  header->operation_count = kOperationCount;
  header->control = session.families & kFamilyAll;
  SetTrigger(header, session);
  FillOperations(segment.operations);
}

// Enables recording in the hooks. Returns the index of the process slot.
uint32_t Enable(const SessionVariable& session, const Segment& segment, long page, bool records_allocator,
                char** environment) {
  g_attachment.segment = segment;
  g_attachment.own_process_only = session.only_child_of != 0;
  g_attachment.clock = static_cast<ClockKind>(session.clock_kind);
  g_attachment.has_exit_key = pthread_key_create(&g_attachment.exit_key, OnThreadExit) == 0;
  rlimit stack;
  g_attachment.default_stack_bytes =
      HasLimit(RLIMIT_STACK, &stack) && stack.rlim_cur < kUnlimitedStack ? stack.rlim_cur : kUnlimitedStack;
  // The texts of arguments and environment lie above the AT_RANDOM bytes: no stack snapshot may contain them.
  g_attachment.main_stack_top = getauxval(AT_RANDOM) & ~uint64_t{15};
  uint32_t slot, serial;
  ClaimProcessSlot(0, 0, &slot, &serial);
  g_fork_page = reinterpret_cast<ForkPage*>(page);
  g_attachment.attached = true;
  g_serial = serial;
  g_fork_page->process_slot = slot;
  __atomic_store_n(&g_fork_page->epoch, serial, __ATOMIC_RELEASE);
  if (session.malloc_stamp_every != 0) g_allocator_way = AllocatorWay::kExact;
  // Valgrind replaces the allocator at glibc's addresses and reports reads outside of a block.
  const bool in_valgrind = HasText(FindVariable(environment, kPreloadVariable), "/vgpreload_");
  if (!in_valgrind) CompareBlockSizes();
  g_probes_pages = !in_valgrind;
  RaiseInheritedAddressLimit();
  __atomic_store_n(&g_control, segment.header, __ATOMIC_RELEASE);
  if (records_allocator) __atomic_store_n(&g_allocator_control, segment.header, __ATOMIC_RELEASE);
  return slot;
}

// Returns ProcessFlag bits: which hooks the program's own look-ups find.
uint32_t TestHooks(bool records_allocator, char** environment, SelfTest* self_test) {
  SelfTest& test = *self_test;
#define TBPROF_OURS(name) {#name, reinterpret_cast<const void*>(&Hook_##name)}
  g_attachment.has_allocator = test.FindsOurs(
      kFamilyMalloc, {TBPROF_OURS(malloc), TBPROF_OURS(memalign), TBPROF_OURS(aligned_alloc), TBPROF_OURS(valloc)});
  test.FindsOurs(kFamilyThread, {TBPROF_OURS(pthread_create), TBPROF_OURS(pthread_setname_np)});
  test.FindsOurs(kFamilyLock, {TBPROF_OURS(pthread_mutex_lock), TBPROF_OURS(pthread_rwlock_wrlock)});
  test.FindsOurs(kFamilySleep, {TBPROF_OURS(nanosleep), TBPROF_OURS(usleep)});
  test.FindsOurs(kFamilyIo, {TBPROF_OURS(read), TBPROF_OURS(write)});
  test.FindsOurs(kFamilyProcess, {TBPROF_OURS(execve), TBPROF_OURS(fork)});
#undef TBPROF_OURS
  g_attachment.has_allocator &= records_allocator;
  uint32_t flags = g_attachment.has_allocator ? kProcessAllocatorSeen : kProcessAllocatorMissed;
  if (!records_allocator) flags |= kProcessSanitized;
  flags |= test.missed() << kProcessMissedShift;
  if (!KnowsBlockSizes()) flags |= kProcessSizesUnknown;
  if (IsPlainAllocator(FindVariable(environment, "PYTHONMALLOC"))) flags |= kProcessPlainPython;
  return flags;
}

void RecordSelf(int argc, char** argv, char** environment, const SessionVariable& session, const SelfTest& test,
                ThreadState* thread) {
  // In .bss: the caller's stack may be small.
  static char executable[4096];
  const long length = raw::Call(SYS_readlinkat, AT_FDCWD, raw::Pointer("/proc/self/exe"), raw::Pointer(executable),
                                sizeof(executable) - 1);
  size_t executable_length = IsError(length) ? 0 : static_cast<size_t>(length);
  if (executable_length == 0) {
    // Without /proc: AT_EXECFN holds the path that was passed to exec.
    const auto* given = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    for (; given != nullptr && *given == '/' && given[executable_length] != '\0'; ++executable_length) {
      if (executable_length == sizeof(executable) - 1) break;
      executable[executable_length] = given[executable_length];
    }
  }
  executable[executable_length] = '\0';
  RecordProcess(thread, argc, argv, environment, session, executable, executable_length);
  test.RecordInterposers(thread);
  RecordLoadedModules(thread, executable);
  FindPythonAtStart(thread);
}

void Attach(int argc, char** argv, char** environment) {
  SessionVariable& session = g_session;
  if (!ParseSessionVariable(FindVariable(environment, kSessionVariable), &session)) return;
  const uint64_t begun_ns = raw::ThreadCpuNs();
  if (!IsWanted(session, environment)) return;
  const SanitizerRuntime sanitizer = FindSanitizerRuntime();
  if (sanitizer == SanitizerRuntime::kEveryCall) return ReportInert(session, Because(InertReason::kSanitizer));
  const bool records_allocator = sanitizer == SanitizerRuntime::kNone;
  Obstacle obstacle{};
  const uint32_t chunks = AllowedChunks(session.chunks, &obstacle);
  if (chunks == 0) return ReportInert(session, obstacle);
  const long page = MakeForkPage(&obstacle);
  if (page == 0) return ReportInert(session, obstacle);
  void* base = nullptr;
  const int fd = MakeSegment(chunks, &base, &obstacle);
  if (fd < 0) {
    Unmap(page, kPage);
    return ReportInert(session, obstacle);
  }
  const Segment segment = SegmentAt(base, chunks);
  InitialiseSegment(segment, LayoutFor(chunks).bytes);
  FillHeader(session, segment);
  int launcher_pid;
  const bool sent = SendHello(session, segment, fd, &launcher_pid);
  raw::Close(fd);
  if (!sent) {
    Unmap(reinterpret_cast<long>(base), LayoutFor(chunks).bytes);
    return Unmap(page, kPage);
  }

  const uint32_t slot = Enable(session, segment, page, records_allocator, environment);
  SelfTest test;
  segment.process_slots[slot].flags = TestHooks(records_allocator, environment, &test);
  HandleCaptureSignal(static_cast<int>(session.handle_signal), launcher_pid);
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  RecordSelf(argc, argv, environment, session, test, thread);
  const uint64_t cost = raw::ThreadCpuNs() - begun_ns;
  segment.process_slots[slot].start_cost = static_cast<uint32_t>(cost < UINT32_MAX ? cost : UINT32_MAX);
}

bool g_started;

__attribute__((constructor)) void Start(int argc, char** argv, char** environment) {
  const int saved = errno;
  ResolveRealFunctions();
  HideLateNames();  // does nothing if the first hook has already called it
  FindDriverAtStart();
  Attach(argc, argv, environment);
  g_started = true;
  errno = saved;
}

}  // namespace

bool MayAnnotate() { return g_attachment.attached || !g_started; }

}  // namespace tbprof
