// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/gpu_probe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>

#include "cupti/library.h"
#include "launcher/base/deadline.h"
#include "launcher/base/paths.h"
#include "launcher/base/text.h"
#include "wire/clock.h"
#include "wire/cupti_names.h"
#include "wire/gpu_bridge.h"
#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr size_t kMaxAnswer = 256 << 10;
constexpr int kMaxDevices = 64;

// ---- versions from file names

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

struct ReadVersion {
  std::string text;  // `12.8.90`; `12` if only the name of the library is known
  int number = 0;    // 12080
};

// Empty if `text` is not a version with this major number.
ReadVersion VersionOf(std::string_view text, int major) {
  text = text.substr(0, text.find_first_not_of("0123456789."));
  while (text.ends_with('.')) text.remove_suffix(1);
  int numbers[2] = {};
  std::string_view rest = text;
  for (int& number : numbers) {
    const std::optional<int> read = TakeNumber<int>(&rest);
    if (!read || *read > 99) return {};
    number = *read;
    rest.remove_prefix(std::min<size_t>(1, rest.size()));
  }
  if (numbers[0] != major) return {};
  return {std::string(text), numbers[0] * 1000 + numbers[1] * 10};
}

// The version in `<package>-12.8.90.dist-info` in Python's `packages`, else in the real name of the library's file:
// `libcudart.so.12.8.90`.
ReadVersion VersionByNames(const std::string& library, int major, const std::string& packages,
                           std::string_view package) {
  const ScopedDirectory listing(packages.empty() ? nullptr : opendir(packages.c_str()));
  while (const dirent* entry = listing == nullptr ? nullptr : readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(package) || !name.ends_with(".dist-info")) continue;
    // `nvidia_cuda_runtime`, `nvidia_cuda_runtime_cu12`.
    const std::string_view rest = name.substr(package.size());
    const size_t dash = rest.find('-');
    if (dash == std::string_view::npos || (dash > 0 && !rest.starts_with("_cu"))) continue;
    if (ReadVersion version = VersionOf(rest.substr(dash + 1), major); version.number > 0) return version;
  }
  const std::string real = RealPath(library);
  if (const size_t so = real.rfind(".so."); so != std::string::npos) {
    if (ReadVersion version = VersionOf(std::string_view(real).substr(so + 4), major); version.number > 0) {
      return version;
    }
  }
  return {StrCat(major), major * 1000};
}

// A directory in LD_LIBRARY_PATH, at or below the working directory, that contains files which the loader may load.
std::string LibrariesHere() {
  const char* const paths = getenv("LD_LIBRARY_PATH");
  if (paths == nullptr || paths[0] == '\0') return "";
  const std::string here = RealPath(".");
  const std::string list = Replace(paths, ';', ':');
  for (const std::string_view entry : Split(list, ':')) {
    const std::string place = RealPath(entry.empty() ? "." : std::string(entry));
    if (place.empty()) continue;
    if (entry.starts_with('/') && (here == "/" || !IsWithin(place, here))) continue;
    const ScopedDirectory listing(opendir(place.c_str()));
    while (const dirent* file = listing == nullptr ? nullptr : readdir(listing.get())) {
      const std::string_view name = file->d_name;
      constexpr std::string_view kOfProcessors[] = {"glibc-hwcaps", "tls", "haswell", "x86_64", "avx512_1"};
      const bool taken = std::find(std::begin(kOfProcessors), std::end(kOfProcessors), name) != std::end(kOfProcessors);
      if (taken || (name.starts_with("lib") && name.find(".so") != std::string_view::npos)) return place;
    }
  }
  return "";
}

// ---- in the child

class Child {
 public:
  explicit Child(int fd) : fd_(fd) {}

  void Look(const std::vector<std::string>& packages) {
    for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
      const char* const home = getenv(variable);
      if (home != nullptr && home[0] == '/') homes_.insert(homes_.begin(), home);
      // Otherwise the search for CUPTI would open libraries in that directory.
      unsetenv(variable);
    }
    withheld_ = LibrariesHere();
    if (!withheld_.empty()) Report("withheld", withheld_);
    if (withheld_.empty()) Driver();
    Runtime(packages);
    Cupti(packages);
    Devices();
    Report("done", "");
  }

 private:
  // Writes each result at once: if a later step hangs, the launcher already has the results before it.
  void Report(std::string_view key, std::string_view value) {
    const std::string line = StrCat(key, "=", Replace(value, '\n', ' '), "\n");
    (void)!write(fd_, line.data(), line.size());
  }
  void ReportNumber(std::string_view key, int64_t number) { Report(key, StrCat(number)); }

  template <typename Function>
  static Function Find(void* library, const char* name) {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
  static std::string PathOf(void* library) {
    link_map* map = nullptr;
    return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
  }

  void Driver() {
    Report("looking", "opening libcuda.so.1");
    driver_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver_ == nullptr) {
      const char* const why = dlerror();
      Report("driver_error", why != nullptr ? why : "libcuda.so.1 cannot be opened");
      return;
    }
    Report("looking", "cuDriverGetVersion");
    auto* const get = Find<int (*)(int*)>(driver_, "cuDriverGetVersion");
    if (get == nullptr || get(&driver_version_) != 0) driver_version_ = 0;
    ReportNumber("driver", driver_version_);
  }

  // Reads the version of a runtime from file names. Does not open the library.
  bool FoundRuntime(const std::string& path, int major, const std::string& packages) {
    if (!IsFile(path)) return false;
    const ReadVersion version = VersionByNames(path, major, packages, "nvidia_cuda_runtime");
    Report("runtime", path);
    Report("runtime_read", version.text);
    ReportNumber("runtime_version", version.number);
    return true;
  }

  bool OpenRuntime(const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW);
    if (library == nullptr) return false;
    Report("runtime", PathOf(library));
    Report("looking", "cudaRuntimeGetVersion");
    auto* const get = Find<int (*)(int*)>(library, "cudaRuntimeGetVersion");
    int version = 0;
    if (get != nullptr && get(&version) == 0) ReportNumber("runtime_version", version);
    return true;
  }

  // Finds the first CUDA runtime that a program may load. The search for CUPTI prefers the one that belongs to it.
  void Runtime(const std::vector<std::string>& packages) {
    Report("looking", "opening the CUDA runtime");
    constexpr std::pair<const char*, int> kWheels[] = {{"nvidia/cu13/lib/libcudart.so.13", 13},
                                                       {"nvidia/cuda_runtime/lib/libcudart.so.12", 12},
                                                       {"nvidia/cuda_runtime/lib/libcudart.so.11.0", 11}};
    constexpr std::pair<const char*, int> kFiles[] = {
        {"libcudart.so.13", 13}, {"libcudart.so.12", 12}, {"libcudart.so.11.0", 11}};
    for (const std::string& directory : packages) {
      for (const auto& [file, major] : kWheels) {
        if (FoundRuntime(StrCat(directory, "/", file), major, directory)) return;
      }
    }
    for (const auto& [file, major] : kFiles) {
      if (withheld_.empty() && OpenRuntime(file)) return;
    }
    for (const std::string& home : homes_) {
      for (const auto& [file, major] : kFiles) {
        if (FoundRuntime(StrCat(home, "/lib64/", file), major, "")) return;
      }
    }
    for (const auto& [file, major] : kFiles) {
      if (withheld_.empty() && OpenRuntime(StrCat("/usr/local/cuda/lib64/", file))) return;
    }
  }

  // Reads the version of a CUPTI from file names. Does not open the library.
  bool FoundCupti(const std::string& directory, const std::string& packages) {
    for (const CuptiName& name : kCuptiNames) {
      const std::string path = StrCat(directory, "/", name.file);
      if (!IsFile(path)) {
        if (packages.empty() && name.major >= 12) Report("tried", StrCat(path, ": no such file"));
        continue;
      }
      if (driver_version_ > 0 && name.major > driver_version_ / 1000) {
        Report("tried", StrCat(path, ": newer than the driver"));
        continue;
      }
      const ReadVersion version = VersionByNames(path, name.major, packages, "nvidia_cuda_cupti");
      Report("cupti", path);
      Report("cupti_read", version.text);
      ReportNumber("cupti_read_version", version.number);
      return true;
    }
    return false;
  }

  void Cupti(const std::vector<std::string>& packages) {
    // Without a driver, cuptiGetVersion of CUPTI 13.2 opens libcuda.so.1 again and again until the stack overflows.
    if (driver_ == nullptr) return;
    Report("looking", "opening CUPTI");
    for (const std::string& directory : packages) {
      for (const char* place : {"/nvidia/cu13/lib", "/nvidia/cuda_cupti/lib"}) {
        if (FoundCupti(directory + place, directory)) return;
      }
    }
    for (const std::string& home : homes_) {
      for (const char* place : {"/extras/CUPTI/lib64", "/lib64"}) {
        if (FoundCupti(home + place, "")) return;
      }
    }
    static cupti::Library library;
    const bool found = cupti::OpenLibrary(driver_version_, &library);
    for (uint32_t i = 0; i < library.tried_count; ++i) Report("tried", library.tried[i]);
    if (!found) return;
    Report("cupti", library.path);
    ReportNumber("cupti_version", library.version);
  }

  void Devices() {
    if (driver_ == nullptr) return;
    Report("looking", "cuInit");
    auto* const init = Find<int (*)(unsigned)>(driver_, "cuInit");
    if (init == nullptr) return;
    const int result = init(0);
    auto* const text_of = Find<int (*)(int, const char**)>(driver_, "cuGetErrorString");
    const char* text = nullptr;
    if (result != 0 && text_of != nullptr && text_of(result, &text) == 0 && text != nullptr) Report("init_text", text);
    ReportNumber("init", result);
    if (result != 0) return;
    Report("looking", "cuDeviceGetCount");
    auto* const count_of = Find<int (*)(int*)>(driver_, "cuDeviceGetCount");
    auto* const get = Find<int (*)(int*, int)>(driver_, "cuDeviceGet");
    auto* const name_of = Find<int (*)(char*, int, int)>(driver_, "cuDeviceGetName");
    int count = 0;
    if (count_of == nullptr || get == nullptr || name_of == nullptr || count_of(&count) != 0) return;
    for (int i = 0; i < std::min(count, kMaxDevices); ++i) {
      int device = 0;
      char name[128] = {};
      if (get(&device, i) == 0 && name_of(name, sizeof(name) - 1, device) == 0) Report("device", name);
    }
  }

  const int fd_;
  void* driver_ = nullptr;
  int driver_version_ = 0;
  std::string withheld_;
  std::vector<std::string> homes_;
};

void Take(std::string_view line, GpuFindings* findings, std::string* looking, bool* done) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view key = line.substr(0, equals);
  const std::string value(line.substr(equals + 1));
  if (key == "looking") *looking = value;
  if (key == "withheld") findings->withheld = value;
  const int number = LeadingNumber<int>(value).value_or(0);
  if (key == "driver_error") findings->driver_error = value;
  if (key == "driver") findings->driver_version = number;
  if (key == "init_text") findings->init_text = value;
  if (key == "init") findings->init_result = number;
  if (key == "device") findings->devices.push_back(value);
  if (key == "runtime") findings->runtime = value;
  if (key == "runtime_version") findings->runtime_version = number;
  if (key == "runtime_read") findings->runtime_read = value;
  if (key == "cupti_read") findings->cupti_read = value;
  if (key == "cupti_read_version") findings->cupti_read_version = number;
  if (key == "cupti") findings->cupti = value;
  if (key == "cupti_version") findings->cupti_version = static_cast<uint32_t>(number);
  if (key == "tried") findings->tried.push_back(value);
  if (key == "done") *done = true;
}

bool Exists(const char* path) { return access(path, F_OK) == 0; }

}  // namespace

GpuProbe::GpuProbe(const std::vector<std::string>& packages)
    : until_ns_(ReadMonotonic() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(kLimit))) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  ScopedFd writer(ends[1]);
  reader_.Reset(ends[0]);
  pid_ = fork();
  if (pid_ < 0) reader_.Reset();
  if (pid_ != 0) return;
  // A library call may never return: the kernel then kills the child when the launcher ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2 && null >= 0; ++fd) dup2(null, fd);
  // Prevents that the driver loads another tool's injection library.
  unsetenv(kInjectionVariable);
  Child(writer.get()).Look(packages);
  // Skips the exit handlers: those of the driver wait for its threads.
  _exit(0);
}

GpuProbe::~GpuProbe() {
  if (pid_ > 0) KillAndLeave(pid_);
}

const GpuFindings& GpuProbe::Wait() {
  if (!reader_.valid()) {
    if (pid_ < 0) findings_.failed = "no process could be started to look";
    return findings_;
  }
  std::string answer;
  bool ended = false;
  while (!ended && answer.size() < kMaxAnswer) {
    const uint64_t now = ReadMonotonic();
    if (now >= until_ns_) break;
    pollfd entry{reader_.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>((until_ns_ - now) / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    char buffer[4096];
    const ssize_t size = read(reader_.get(), buffer, sizeof(buffer));
    if (size > 0) answer.append(buffer, static_cast<size_t>(size));
    ended = size == 0 || (size < 0 && errno != EINTR);
  }
  reader_.Reset();
  std::string looking;
  bool done = false;
  for (const std::string_view line : Split(answer, '\n')) Take(line, &findings_, &looking, &done);
  if (!done && ended) findings_.failed = StrCat(looking, " ended the process");
  if (!done && !ended) findings_.failed = StrCat(looking, " gave no answer in ", absl::FormatDuration(kLimit));
  if (pid_ > 0 && !ended) KillAndLeave(pid_);
  if (pid_ > 0 && ended) {
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = 0;
  return findings_;
}

DriverAnswer AnswerOf(const GpuFindings& findings) {
  DriverAnswer answer;
  const bool has_device = Exists("/dev/nvidia0") || Exists("/proc/driver/nvidia/version") || Exists("/dev/dxg");
  if (!findings.withheld.empty()) {
    answer.found = StrCat("not asked: LD_LIBRARY_PATH leads to libraries in ", findings.withheld,
                          ", in the working directory, and none of such is loaded");
    answer.fix = "run it in another directory, or without that part of LD_LIBRARY_PATH";
    return answer;
  }
  if (!findings.driver_error.empty()) {
    // `libx.so.1: cannot open shared object file`: the file is the driver library itself, or a library that it needs.
    const std::string_view missing = std::string_view(findings.driver_error).substr(0, findings.driver_error.find(':'));
    const bool cannot_open = findings.driver_error.find("cannot open shared object") != std::string::npos;
    if (!cannot_open || BaseName(missing) != "libcuda.so.1") {
      answer.found = cannot_open ? StrCat("NVIDIA's driver library libcuda.so.1 is here, ", missing,
                                          ", which it needs, is not (", findings.driver_error, ")")
                                 : StrCat("libcuda.so.1 is here and cannot be loaded (", findings.driver_error, ")");
      answer.fix = cannot_open ? StrCat("install the package that has ", missing,
                                        ", or name its directory in "
                                        "LD_LIBRARY_PATH")
                               : std::string("install the driver of this machine's kernel module again");
      return answer;
    }
    answer.absent = !has_device;
    answer.found = StrCat("no NVIDIA driver (", findings.driver_error, ")");
    answer.fix = has_device
                     ? "the kernel's part of the driver is here, its library is not: in a container --gpus all and "
                       "NVIDIA_DRIVER_CAPABILITIES=compute,utility, else LD_LIBRARY_PATH"
                     : "install NVIDIA's driver; in a container --gpus all";
    return answer;
  }
  const std::string driver =
      StrCat("driver of CUDA ", findings.driver_version > 0 ? CudaVersionText(findings.driver_version) : "?");
  if (findings.init_result > 0) {
    answer.found = StrCat(driver, ", cuInit answers ", findings.init_result,
                          findings.init_text.empty() ? "" : StrCat(": ", findings.init_text));
    const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
    if (findings.init_result == 100 && visible != nullptr) {
      StrAppend(&answer.found, " (CUDA_VISIBLE_DEVICES=", visible, ")");
      answer.fix = "unset CUDA_VISIBLE_DEVICES, or name a device that is here";
    } else if (findings.init_result == 803) {
      answer.fix =
          "the driver's library and its kernel module differ: reboot, or in a container take the host's library";
    } else if (findings.init_result == 802) {
      answer.fix = "start nvidia-fabricmanager";
    } else {
      answer.fix = "see what nvidia-smi prints";
    }
    return answer;
  }
  if (findings.init_result < 0) {
    answer.found = StrCat(driver, ": ", findings.failed.empty() ? "no cuInit" : findings.failed);
    answer.fix =
        "see what nvidia-smi and the kernel's log (Xid) print; without persistence mode (nvidia-smi -pm 1) a first "
        "start "
        "takes seconds";
    return answer;
  }
  std::string names;
  for (size_t i = 0; i < findings.devices.size() && i < 2; ++i) {
    if (i == 0 || findings.devices[i] != findings.devices[0]) {
      StrAppend(&names, names.empty() ? ": " : ", ", findings.devices[i]);
    }
  }
  answer.works = !findings.devices.empty();
  answer.found = StrCat(driver, ", ", findings.devices.size(), findings.devices.size() == 1 ? " GPU" : " GPUs", names);
  if (!answer.works) answer.fix = "see what nvidia-smi prints";
  return answer;
}

std::string CudaVersionText(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

int CudaVersionOfCupti(uint32_t version) {
  if (version >= 10'000) return static_cast<int>(version / 10'000 * 1000 + version / 100 % 100 * 10);
  constexpr struct {
    uint32_t cupti;
    int cuda;
  } kKnown[] = {{27, 12090}, {22, 12040}, {18, 12010}};
  for (const auto& known : kKnown) {
    if (version >= known.cupti) return known.cuda;
  }
  return 11000;
}

}  // namespace tbprof
