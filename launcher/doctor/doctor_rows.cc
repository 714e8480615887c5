// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor_rows.h"

#include <dirent.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/run/surroundings.h"
#include "launcher/sampling/perf_events.h"
#include "launcher/session/spools.h"
#include "launcher/target/command_python.h"
#include "launcher/target/libraries.h"
#include "launcher/target/library_copy.h"
#include "launcher/target/memory_limit.h"
#include "launcher/target/preflight.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

using Result = std::optional<Finding>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string FirstLineOf(const std::string& path) {
  const std::string text = ReadText(path);
  return text.substr(0, text.find('\n'));
}
std::string Bytes(uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// ---- the machine

Result System(const DoctorContext& context) {
  utsname system{};
  uname(&system);
  int major = 0, minor = 0, libc_major = 0, libc_minor = 0;
  sscanf(system.release, "%d.%d", &major, &minor);
  sscanf(gnu_get_libc_version(), "%d.%d", &libc_major, &libc_minor);
  const std::string found =
      StrCat(system.sysname, " ", system.release, ", glibc ", gnu_get_libc_version(), ", ", system.machine);
  const absl::StatusOr<Libraries> libraries = FindLibraries(context.environment);
  if (std::pair(libc_major, libc_minor) < std::pair(2, 34) && !(libraries.ok() && libraries->for_older_glibc)) {
    return Fail(found, "tbprof's libraries need glibc 2.34: install its wheel, which has some for 2.17");
  }
  if (IsProcOfOthers()) {
    return Fail("/proc belongs to another PID namespace: no stacks", "mount /proc in this one: unshare --mount-proc");
  }
  // First Linux versions: memfd_create 3.17, MADV_WIPEONFORK 4.14, pidfd_open 5.3.
  if (std::pair(major, minor) < std::pair(4, 14)) return Fail(found, "tbprof needs Linux 5.3 or newer");
  if (std::pair(major, minor) < std::pair(5, 3))
    return Warn(found, "use Linux 5.3 or newer: the ends of processes show");
  return Pass(found);
}

Result Library(const DoctorContext& context) {
  const absl::StatusOr<Libraries> libraries = FindLibraries(context.environment);
  if (!libraries.ok()) return Fail(std::string(libraries.status().message()), "install tbprof as a whole");
  // The path of the file, without the directory part for AddressSanitizer.
  const std::string file = StrCat(libraries->directory, "/", kPreloadFileName);
  if (!MayChangeUser() || IsReadableByAll(libraries->preload)) return Pass(file);
  const std::string place = LibraryCopy::Place();
  if (!place.empty()) {
    return Pass(StrCat(file, ": readable by its owner only; each run copies it to ", place,
                       " for children that change their user"));
  }
  return Warn(StrCat(file, ": readable by its owner only; a child that changes its user prints an error of ld.so"),
              "install tbprof where all users can read it");
}

Result Filter(const DoctorContext&) {
  const std::string mode = StatusField(ReadText("/proc/self/status"), "Seccomp");
  if (mode.empty()) return Warn("/proc is not mounted", "mount it: tbprof reads /proc of the programs it records");
  std::string found =
      mode == "0" ? "no system call filter" : StrCat("a system call filter is active (mode ", mode, ")");
  const std::string yama = FirstLineOf("/proc/sys/kernel/yama/ptrace_scope");
  if (!yama.empty()) found += StrCat("; Yama ptrace_scope ", yama);
  const long pidfd = syscall(SYS_pidfd_open, getpid(), 0);
  const int error = errno;
  if (pidfd < 0) {
    return Warn(StrCat(found, "; pidfd_open: ", strerror(error)),
                "let the filter pass pidfd_open: without it ends of processes are noticed late");
  }
  close(static_cast<int>(pidfd));
  return Pass(found);
}

Result SharedMemory(const DoctorContext&) {
  const std::string fix = "let the system call filter of this container pass memfd_create and F_ADD_SEALS";
  const ScopedFd file(static_cast<int>(syscall(SYS_memfd_create, "tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!file.valid()) return Fail(StrCat("memfd_create: ", strerror(errno)), fix);
  // Growing a file beyond RLIMIT_FSIZE ends the process; the row `limits` checks that limit.
  rlimit size{};
  const bool may_grow = getrlimit(RLIMIT_FSIZE, &size) != 0 || size.rlim_cur >= kMiB;
  if (may_grow && ftruncate(file.get(), kMiB) != 0) return Fail(StrCat("memfd: ftruncate: ", strerror(errno)), fix);
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Fail(StrCat("memfd cannot be sealed: ", strerror(errno)), fix);
  }
  struct statvfs shm {};
  const std::string place = statvfs("/dev/shm", &shm) != 0 ? std::string("no /dev/shm")
                                                           : StrCat("/dev/shm ", Bytes(shm.f_blocks * shm.f_frsize));
  return Pass(StrCat("memfd works and can be sealed (", place, ": not used)"));
}

Result Memory(const DoctorContext& context) {
  const std::optional<uint64_t> limit = CgroupMemoryLimit();
  if (!limit) return Pass("no cgroup limit on memory");
  const uint64_t segment = SegmentBytes(context.options, limit, AddressSpaceLimit());
  const std::string found = StrCat("cgroup limit ", Bytes(*limit), ", of which a recorded program's records take ",
                                   Bytes(segment), " at most");
  if (*limit < 4 * segment)
    return Warn(found, StrCat("--buffer-size=", std::max<uint64_t>(*limit / 20 / kMiB, 4), "MiB"));
  return Pass(found);
}

Result Limits(const DoctorContext& context) {
  const uint64_t least = LayoutFor(kMinChunks).bytes;
  const uint64_t wanted = LayoutFor(static_cast<uint32_t>(std::clamp<uint64_t>(
                                        context.options.segment_size / kChunkBytes, kMinChunks, kMaxChunks)))
                              .bytes;
  const struct {
    int resource;
    const char* name;
    uint64_t share;  // divisor: a segment may take 1/share of the limit
  } kLimits[] = {{RLIMIT_FSIZE, "ulimit -f", 1}, {RLIMIT_AS, "ulimit -v", 8}};
  Finding worst = Pass("files, addresses and descriptors are enough");
  for (const auto& limit : kLimits) {
    rlimit value{};
    if (getrlimit(limit.resource, &value) != 0 || value.rlim_cur == RLIM_INFINITY) continue;
    const std::string found = StrCat(limit.name, " is ", Bytes(value.rlim_cur));
    if (value.rlim_cur / limit.share < least) {
      return Fail(StrCat(found, ": no room for records"),
                  StrCat(limit.name, " ", (least * limit.share + kMiB) / 1024, " or more, or unlimited"));
    }
    if (value.rlim_cur / limit.share < wanted) {
      worst = Warn(StrCat(found, ": programs get a smaller buffer than --buffer-size"),
                   StrCat(limit.name, " unlimited, or a smaller --buffer-size"));
    }
  }
  rlimit files{};
  if (worst.verdict == DoctorVerdict::kPass && getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 256) {
    worst =
        Warn(StrCat("ulimit -n is ", files.rlim_cur, ": tbprof holds two descriptors per program"), "ulimit -n 1024");
  }
  return worst;
}

// ---- clocks

Result Clock(const DoctorContext&) {
  int mode = 0;
  if (prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode == PR_TSC_SIGSEGV) {
    return Fail("reading the time stamp counter is forbidden here (PR_SET_TSC)",
                "allow it: prctl(PR_SET_TSC, PR_TSC_ENABLE)");
  }
  const std::string source = FirstLineOf("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const std::string flags = StatusField(ReadText("/proc/cpuinfo"), "flags");
  const bool invariant =
      flags.find("constant_tsc") != std::string::npos && flags.find("nonstop_tsc") != std::string::npos;
  uint64_t cost = UINT64_MAX;
  for (int round = 0; round < 5; ++round) {
    const uint64_t start = ReadMonotonic();
    for (int i = 0; i < 100; ++i) ReadMonotonic();
    cost = std::min(cost, (ReadMonotonic() - start) / 100);
  }
  const std::string found = StrCat("clock source ", source.empty() ? "unknown" : source,
                                   invariant ? ", invariant counter" : "", ", ", cost, " ns a reading");
  if (cost > 200) {
    return Warn(StrCat(found, ": each record takes two"), "boot with clocksource=tsc if the counter is sound");
  }
  return Pass(found);
}

// True: the environment is that of a job on several machines.
bool IsOnSeveralMachines(const Environment& environment) {
  const auto number = [&](const char* name) {
    return LeadingNumber<uint64_t>(Lookup(environment, name).value_or("")).value_or(0);
  };
  for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE", "NNODES", "PBS_NUM_NODES"}) {
    if (number(name) > 1) return true;
  }
  for (const auto& [all, local] :
       {std::pair("WORLD_SIZE", "LOCAL_WORLD_SIZE"), std::pair("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        std::pair("MPI_WORLD_SIZE", "MPI_LOCALNRANKS")}) {
    if (number(local) > 0 && number(all) > number(local)) return true;
  }
  return false;
}

Result ClockSync(const DoctorContext& context) {
  timex state{};
  if (adjtimex(&state) < 0) return Pass("unknown: adjtimex is not permitted here");
  if ((state.status & STA_UNSYNC) == 0) return Pass("the wall clock is synchronised");
  if (IsOnSeveralMachines(context.environment)) {
    return Warn("the wall clock is not synchronised: machines of this job do not line up", "run chrony or ntpd");
  }
  return Note("the wall clock is not synchronised: it matters for runs of several machines", "run chrony or ntpd");
}

Result TimeNamespace(const DoctorContext&) {
  const std::string own = LinkText("/proc/self/ns/time"), children = LinkText("/proc/self/ns/time_for_children");
  if (own.empty() || children.empty()) return std::nullopt;
  if (own != children) {
    return Warn("programs started from here get another time namespace: their clock is not tbprof's",
                "start tbprof inside that namespace");
  }
  return Pass("programs have the clock of tbprof");
}

// ---- preloaded libraries, and the command

Result Preloaded(const DoctorContext& context) {
  if (Lookup(context.environment, kSessionVariable)) {
    return Warn("inside a `tbprof run`: a further one passes through", "leave that shell");
  }
  const std::string_view value = Lookup(context.environment, kPreloadVariable).value_or("");
  if (Strip(value).empty()) return Pass("LD_PRELOAD is not set");
  std::string names;
  Result worst;
  const auto raise = [&](Finding finding) {
    if (!worst || worst->verdict < finding.verdict) worst = std::move(finding);
  };
  const std::string parts = Replace(value, ' ', ':');
  for (const std::string_view part : Split(parts, ':')) {
    if (part.empty()) continue;
    const std::string path(part);
    const std::string_view name = BaseName(part);
    names += StrCat(names.empty() ? "" : ", ", name);
    const auto is = [&](std::initializer_list<std::string_view> prefixes) {
      return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view at) { return name.starts_with(at); });
    };
    if (name == kPreloadFileName) {
      raise(Warn("LD_PRELOAD names tbprof's library already", "unset LD_PRELOAD: tbprof run sets it"));
    } else if (is({"libasan.so", "libtsan.so", "libmsan.so", "libubsan.so", "libclang_rt."})) {
      raise(Fail(StrCat(name, " is preloaded and must be first, as tbprof's library must"),
                 "profile a build without the sanitizer"));
    } else if (is({"libheaptrack", "libToolsInjection", "libnvperf", "libtcmalloc_and_profiler", "libprofiler.so",
                   "libittnotify", "libtrace", "liblttng-ust", "libmtrace", "libvtune", "libgperf"})) {
      raise(Warn(StrCat(name, " is preloaded: a second profiler, and each measures the other"), "unset LD_PRELOAD"));
    } else if (part.find('/') != std::string_view::npos && access(path.c_str(), R_OK) != 0) {
      raise(Warn(StrCat("LD_PRELOAD names ", path, ": ", strerror(errno)), "correct or unset LD_PRELOAD"));
    } else if (!is({"libjemalloc", "libtcmalloc", "libmimalloc", "libiomp5", "libomp", "libgomp", "libstdc++"})) {
      raise(Warn(StrCat(name, " is preloaded: tbprof's library goes before it"),
                 "see that the program runs with both; unset LD_PRELOAD otherwise"));
    }
  }
  return worst ? worst : Pass(StrCat(names, " behind tbprof's library"));
}

Result Command(const DoctorContext& context) {
  if (context.options.command.empty()) return std::nullopt;
  const Preflight preflight = CheckCommand(context.options.command, context.environment);
  if (preflight.exit_status != 0) return Fail(preflight.error, "name a program that can be run");
  if (preflight.reasons.empty()) {
    const std::string notes = preflight.notes.empty() ? "" : StrCat("; ", preflight.notes[0]);
    return Pass(StrCat(preflight.program, " can be recorded", notes));
  }
  // A reason has the form `observation; remedy`.
  const std::string& reason = preflight.reasons[0];
  const size_t fix = reason.rfind("; ");
  const std::string found = fix == std::string::npos ? reason : reason.substr(0, fix);
  const std::string what = fix != std::string::npos  ? reason.substr(fix + 2)
                           : preflight.own_allocator ? "link it without that allocator to see them"
                                                     : "use the profiler named";
  return preflight.preload == Preload::kYes ? Warn(found, what) : Fail(found, what);
}

// ---- directories

// Tests whether a file can be created in the directory, written to disk, and renamed without replacing another.
std::string ProbeDirectory(const std::string& directory, bool* no_replace) {
  *no_replace = true;
  std::string pattern = StrCat(directory, "/.tbprof-probe-XXXXXX");
  const ScopedFd file(mkostemp(pattern.data(), O_CLOEXEC));
  if (!file.valid()) return strerror(errno);
  const std::string renamed = StrCat(pattern, "-2");
  std::string problem;
  if (write(file.get(), "probe", 5) != 5 || fsync(file.get()) != 0) {
    problem = strerror(errno);
  } else if (syscall(SYS_renameat2, AT_FDCWD, pattern.c_str(), AT_FDCWD, renamed.c_str(), 1 /* RENAME_NOREPLACE */) !=
             0) {
    *no_replace = false;
  }
  unlink(pattern.c_str());
  unlink(renamed.c_str());
  return problem;
}

Result Logdir(const DoctorContext& context) {
  const std::string place = Existing(context.logdir);
  struct stat facts {};
  const std::string fix = "--logdir=DIR with a directory that you may write";
  if (stat(place.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode)) {
    return Fail(StrCat(place, " is no directory"), fix);
  }
  bool no_replace = true;
  const std::string problem = ProbeDirectory(place, &no_replace);
  if (!problem.empty()) {
    const std::string found = StrCat("cannot write to ", place, ": ", problem);
    if (context.options.logdir_required) return Fail(found, fix);
    return Warn(StrCat(found, "; profiles would go to TMPDIR"), fix);
  }
  if (!no_replace) {
    return Warn(StrCat(place, ": its file system cannot rename without replacing"),
                "give each run a logdir of its own when several write at once");
  }
  return Pass(StrCat(context.logdir, place == context.logdir ? "" : StrCat(" can be made in ", place)));
}

// The directory that Session would choose for the spool.
std::string SpoolPlace(const DoctorContext& context) {
  std::string place = Existing(context.options.spool_dir.empty() ? context.logdir : context.options.spool_dir);
  if (!context.options.spool_dir.empty() || StorageOf(place) == Storage::kDisk) return place;
  const std::vector<std::string> local = LocalDirectories();
  return local.empty() ? place : local.front();
}

Result Space(const DoctorContext& context) {
  const std::string place = SpoolPlace(context);
  struct statvfs facts {};
  if (statvfs(place.c_str(), &facts) != 0) return std::nullopt;
  const uint64_t free = facts.f_bavail * facts.f_frsize;
  const std::string found = StrCat(Bytes(free), " free for raw records in ", place);
  if (free < 64 * kMiB) return Fail(found, "make room, or --spool-dir=DIR elsewhere");
  if (free < 1024 * kMiB)
    return Warn(found, "make room, or --spool-dir=DIR elsewhere: a busy program fills it in minutes");
  return Pass(found);
}

Result SpoolFileSystem(const DoctorContext& context) {
  const std::string place = SpoolPlace(context);
  switch (StorageOf(place)) {
    case Storage::kMemory:
      return Warn(StrCat("raw records go to memory: ", place, " is a tmpfs"), "--spool-dir=DIR on a disk");
    case Storage::kRemote:
      return Warn(StrCat("raw records go over the network: ", place), "--spool-dir=DIR on a local disk");
    case Storage::kDisk:
      break;
  }
  return Pass(StrCat("raw records go to ", place));
}

Result Leftovers(const DoctorContext& context) {
  std::vector<std::string> spools = FindSpools(context.logdir);
  if (!context.options.spool_dir.empty()) {
    for (std::string& spool : FindSpools(context.options.spool_dir)) spools.push_back(std::move(spool));
  }
  std::erase_if(spools, IsSpoolInUse);
  if (spools.empty()) return Pass("no raw records of a killed tbprof");
  const std::string more = spools.size() > 1 ? StrCat(" and ", spools.size() - 1, " more") : "";
  return Warn(StrCat("raw records without a tbprof: ", spools[0], more),
              StrCat("tbprof recover ", ShellQuoted(spools[0].substr(0, spools[0].rfind('/')))));
}

// ---- the viewer

// The Python of --python, else the one that the command runs, else the active one; empty: none.
std::string ChosenPython(const Options& options, const Environment& environment) {
  if (options.python.find('/') != std::string::npos) return options.python;
  if (!options.python.empty()) return ResolveCommand(options.python, environment).path;
  if (std::string python = PythonOfCommand(options.command, environment, WorkingDirectory()); !python.empty()) {
    return python;
  }
  const std::string_view active = Lookup(environment, "VIRTUAL_ENV").value_or("");
  return active.empty() ? ResolveCommand("python3", environment).path : StrCat(active, "/bin/python3");
}

Result Viewer(const DoctorContext& context) {
  const std::string python = ChosenPython(context.options, context.environment);
  if (python.empty()) return Note("no python3 to look for TensorBoard in", "--python=PATH of the one that has it");
  if (access(python.c_str(), X_OK) != 0) {
    return Note(StrCat(python, ": ", strerror(errno)), "--python=PATH of the Python that has TensorBoard");
  }
  const std::map<std::string, std::string> packages = PackagesOf(python, context.environment);
  const auto version = [&](const char* name) {
    const auto found = packages.find(name);
    return found == packages.end() ? std::string() : found->second;
  };
  std::string tensorboard = version("tensorboard");
  if (tensorboard.empty()) tensorboard = version("tb_nightly");
  std::string xprof = version("xprof");
  if (xprof.empty()) xprof = version("xprof_nightly");
  std::string plugin = version("tensorboard_plugin_profile");
  if (plugin.empty()) plugin = version("tbp_nightly");
  const std::string install = StrCat(python, " -m pip install ");
  if (tensorboard.empty() && xprof.empty()) {
    return Note(StrCat("no TensorBoard for ", python), StrCat(install, "tensorboard xprof, or --python=PATH"));
  }
  if (xprof.empty() && plugin.empty()) {
    return Note(StrCat("TensorBoard ", tensorboard, " without its profile plugin"), StrCat(install, "xprof"));
  }
  if (!xprof.empty() && !plugin.empty() && xprof != plugin) {
    return Note(StrCat("xprof ", xprof, " and tensorboard-plugin-profile ", plugin, " serve the same pages"),
                StrCat(python, " -m pip uninstall tensorboard-plugin-profile"));
  }
  if (xprof.empty()) {
    const uint64_t major = LeadingNumber<uint64_t>(plugin).value_or(0);
    const uint64_t minor =
        LeadingNumber<uint64_t>(plugin.substr(std::min(plugin.find('.'), plugin.size() - 1) + 1)).value_or(0);
    if (std::pair(major, minor) < std::pair<uint64_t, uint64_t>(2, 19)) {
      return Note(StrCat("tensorboard-plugin-profile ", plugin, " is an older one"), StrCat(install, "-U xprof"));
    }
  }
  return Pass(StrCat(tensorboard.empty() ? "" : StrCat("TensorBoard ", tensorboard, ", "),
                     xprof.empty() ? StrCat("tensorboard-plugin-profile ", plugin) : StrCat("xprof ", xprof), " (",
                     python, ")"));
}

Result Proxy(const DoctorContext& context) {
  std::string proxy;
  for (const char* name : {"grpc_proxy", "https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy"}) {
    if (proxy.empty() && !Lookup(context.environment, name).value_or("").empty()) proxy = name;
  }
  if (proxy.empty()) return Pass("no proxy is set");
  bool local = false;
  for (const char* name : {"no_grpc_proxy", "no_proxy", "NO_PROXY"}) {
    for (const std::string_view part : Split(Lookup(context.environment, name).value_or(""), ',')) {
      const std::string_view host = Strip(part);
      local = local || host == "*" || host == "localhost" || host == "127.0.0.1" || host.starts_with("127.0.0.0/");
    }
  }
  if (local) return Pass(StrCat(proxy, " is set, not for localhost"));
  return Warn(StrCat(proxy, " is set, for localhost too: TensorBoard cannot be reached there"),
              "export no_proxy=localhost,127.0.0.1,::1");
}

// ---- native stacks

Result NativeStacks(const DoctorContext&) {
  const int error = ProbePerfEvents();
  if (error == 0) return Pass("--sample-rate samples native stacks, too");
  const PerfRefusal refusal = ExplainPerfRefusal(error, PerfEventParanoid());
  return Note(StrCat("--sample-rate samples no native stacks: ", refusal.cause), refusal.remedy);
}

constexpr DoctorRow kRows[] = {
    {"system", System},        {"library", Library},       {"filter", Filter},         {"stacks", CheckStacks},
    {"memfd", SharedMemory},   {"memory", Memory},         {"limits", Limits},         {"clock", Clock},
    {"clock-sync", ClockSync}, {"time-ns", TimeNamespace}, {"preload", Preloaded},     {"command", Command},
    {"logdir", Logdir},        {"space", Space},           {"spool", SpoolFileSystem}, {"leftovers", Leftovers},
    {"viewer", Viewer},        {"proxy", Proxy},           {"perf", NativeStacks},     {"self-test", CheckSelfTest},
    {"driver", CheckDriver},   {"cuda", CheckCuda},        {"cupti", CheckCupti},
};

}  // namespace

absl::Span<const DoctorRow> DoctorRows() { return kRows; }

std::vector<std::string> PythonPackages(const Options& options, const Environment& environment) {
  const std::string python = ChosenPython(options, environment);
  return python.empty() ? std::vector<std::string>() : PackageDirectories(python, environment);
}

}  // namespace tbprof
