// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_runtime.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "launcher/base/proc_files.h"
#include "launcher/sampling/read_denial.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"
#include "writer/symbols/elf_file.h"

namespace tbprof {
namespace {

constexpr uint64_t kMaxTableBytes = 64 << 20;
constexpr size_t kMaxModules = 64;  // in the cache

// Reads the required symbols from one symbol table of the file.
void ReadSymbolTable(ElfFile* file, const ElfFile::Section& table, PythonModule* module) {
  const auto& sections = file->sections();
  if (table.link >= sections.size() || table.size > kMaxTableBytes) return;
  const ElfFile::Section& names = sections[table.link];
  if (names.size > kMaxTableBytes) return;
  std::vector<Elf64_Sym> symbols(table.size / sizeof(Elf64_Sym));
  std::vector<char> strings(names.size + 1, '\0');
  if (symbols.empty() || !file->Read(table.offset, symbols.data(), symbols.size() * sizeof(Elf64_Sym))) return;
  if (!file->Read(names.offset, strings.data(), names.size)) return;
  for (const Elf64_Sym& symbol : symbols) {
    if (symbol.st_name >= names.size || symbol.st_value == 0 || symbol.st_shndx == SHN_UNDEF) continue;
    const char* name = &strings[symbol.st_name];
    if (module->runtime == 0 && std::strcmp(name, "_PyRuntime") == 0) module->runtime = symbol.st_value;
    if (module->version == 0 && std::strcmp(name, "Py_Version") == 0) module->version = symbol.st_value;
  }
}

// The minor version of strings such as `3.10.13` in .rodata; 0 if there is none, or if several minor versions occur.
uint16_t FindVersionString(ElfFile* file) {
  const ElfFile::Section* constants = file->FindSection(".rodata");
  if (constants == nullptr || constants->size > kMaxTableBytes) return 0;
  std::string text(constants->size, '\0');
  if (!file->Read(constants->offset, text.data(), text.size())) return 0;
  uint16_t minor = 0;
  for (size_t at = text.find(std::string("\0003.", 3)); at != std::string::npos;
       at = text.find(std::string("\0003.", 3), at + 1)) {
    const char* from = &text[at + 3];
    const char* end = text.data() + text.size();
    uint16_t this_minor = 0, micro = 0;
    auto [dot, error] = std::from_chars(from, end, this_minor);
    if (error != std::errc() || dot == end || *dot != '.') continue;
    auto [behind, error2] = std::from_chars(dot + 1, end, micro);
    if (error2 != std::errc() || behind == end || (*behind != '\0' && *behind != '+')) continue;
    if (minor != 0 && this_minor != minor) return 0;
    minor = this_minor;
  }
  return minor;
}

// Caches modules: for a program that starts a hundred times, the interpreter's symbols are read once.
const PythonModule& CachedModule(const std::string& path) {
  static thread_local std::map<std::tuple<dev_t, ino_t, off_t, time_t, long>, PythonModule> known;
  struct stat status = {};
  stat(path.c_str(), &status);
  const auto key =
      std::make_tuple(status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= kMaxModules) known.clear();
  return known[key] = ReadPythonModule(path);
}

PythonRuntime Refuse(PythonRuntime python, PythonState state, std::string reason) {
  python.found = true;
  python.state = state;
  python.reason = std::move(reason);
  return python;
}

std::string VersionName(uint16_t minor) { return "CPython 3." + std::to_string(minor); }

// Applies the offsets of the interpreter's own table (_Py_DebugOffsets).
bool ApplyDebugOffsets(uint64_t runtime, const PythonLayout& where, const ReadMemory& read, PythonLayout* layout,
                       bool* free_threaded) {
  uint8_t table[kPythonDebugBytes];
  return ReadAt(read, runtime, table, sizeof(table)) &&
         ApplyPythonDebugOffsets(table, sizeof(table), where, layout, free_threaded);
}

}  // namespace

uint16_t MinorOfPythonName(std::string_view path, bool* free_threaded) {
  const std::string_view name = BaseName(path);
  const size_t at = name.find("python3.");
  if (at == std::string_view::npos) return 0;
  uint16_t minor = 0;
  const char* end = name.data() + name.size();
  const auto [behind, error] = std::from_chars(name.data() + at + 8, end, minor);
  if (error != std::errc()) return 0;
  *free_threaded = behind != end && *behind == 't';
  return minor;
}

PythonModule ReadPythonModule(const std::string& path) {
  PythonModule module;
  const std::unique_ptr<ElfFile> file = ElfFile::Open(path);
  if (file == nullptr || file->segments().empty()) return module;
  module.lowest = file->segments().front().address - file->segments().front().offset;
  for (const uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {
    for (const ElfFile::Section& section : file->sections()) {
      if (section.type == type && module.runtime == 0) ReadSymbolTable(file.get(), section, &module);
    }
  }
  if (module.runtime == 0) {
    if (const ElfFile::Section* section = file->FindSection(".PyRuntime")) module.runtime = section->address;
  }
  if (module.runtime != 0 && module.version == 0) module.minor = FindVersionString(file.get());
  return module;
}

PythonRuntime DecidePythonRuntime(uint64_t runtime, uint64_t version, uint16_t minor, bool free_threaded,
                                  const ReadMemory& read) {
  PythonRuntime python;
  python.found = true;
  python.address = runtime;
  python.minor = minor;
  uint32_t number = 0;
  const iovec range = MemoryRange(version != 0 ? version : runtime, sizeof(number));
  if (const int64_t got = read(&number, {&range, 1}); got < 0 && IsReadDenied(static_cast<int>(-got))) {
    python.error = static_cast<int>(-got);
    return Refuse(python, kPythonNoPermission, "Python stacks: not sampled, reading the process's memory is denied");
  } else if (got != sizeof(number)) {
    python.found = false;  // the process has ended, or is still being mapped
    return python;
  }
  if (version != 0) {
    if (number >> 24 != 3) {
      return Refuse(python, kPythonUnknownVersion, "Python stacks: not sampled, the version of Python is not known");
    }
    python.minor = static_cast<uint16_t>(number >> 16 & 0xff);
    if ((number & 0xf0) != 0xf0) {
      return Refuse(python, kPythonUnknownVersion,
                    "Python stacks: not sampled, this " + VersionName(python.minor) + " is a pre-release");
    }
  }
  if (python.minor == 0) {
    return Refuse(python, kPythonUnknownVersion, "Python stacks: not sampled, the version of Python is not known");
  }
  const auto row = std::find_if(std::begin(kPythonLayouts), std::end(kPythonLayouts),
                                [&](const PythonLayout& layout) { return layout.minor == python.minor; });
  if (row == std::end(kPythonLayouts)) {
    return Refuse(python, kPythonUnknownVersion,
                  "Python stacks: not sampled, " + VersionName(python.minor) + " is not supported");
  }
  python.layout = *row;
  for (const PythonLayout& where : kPythonDebugOffsets) {
    if (where.minor != python.minor) continue;
    bool flag = false;
    if (!ApplyDebugOffsets(runtime, where, read, &python.layout, &flag)) {
      return Refuse(python, kPythonLayoutMismatch,
                    "Python stacks: not sampled, this " + VersionName(python.minor) + " has no valid table of offsets");
    }
    free_threaded |= flag;
  }
  if (free_threaded) {
    return Refuse(python, kPythonFreeThreaded,
                  "Python stacks: not sampled, a free-threaded " + VersionName(python.minor) + " is not supported");
  }
  return python;
}

std::optional<PythonRuntime> FindRuntimeIn(const std::string& path, const FileMapping& file, const ReadMemory& read) {
  const PythonModule& module = CachedModule(path);
  if (module.runtime == 0) return std::nullopt;
  const uint64_t bias = file.start - file.offset - module.lowest;
  bool free_threaded = false;
  uint16_t minor = MinorOfPythonName(file.path, &free_threaded);
  if (minor == 0) minor = module.minor;
  return DecidePythonRuntime(bias + module.runtime, module.version == 0 ? 0 : bias + module.version, minor,
                             free_threaded, read);
}

PythonRuntime FindPythonRuntime(pid_t pid, const ReadMemory& read) {
  const std::string proc = "/proc/" + std::to_string(pid);
  int error = 0;
  const std::vector<FileMapping> files = ParseMappedFiles(ReadProcFile(proc + "/maps", &error));
  // Permission is denied: whether the process runs Python is not known.
  if (IsReadDenied(error)) return Refuse({}, kPythonNoPermission, DenialReason(pid, error));
  struct stat executable = {};
  // Likewise: some kernels show the maps, but not the executable, of a process that allows no debugger.
  if (stat((proc + "/exe").c_str(), &executable) != 0 && IsReadDenied(errno)) {
    return Refuse({}, kPythonNoPermission, DenialReason(pid, errno));
  }
  PythonRuntime other;
  for (const FileMapping& file : files) {
    const std::string_view name = BaseName(file.path);
    if (name.starts_with("libpypy") || name.starts_with("pypy")) {
      other = Refuse({}, kPythonNotCPython, "Python stacks: not sampled, PyPy is not supported");
    }
    if (file.inode != executable.st_ino && !name.starts_with("libpython")) continue;
    const std::string path = OpenablePath(file, {PathInRoot(pid, file), proc + "/exe", PathOfRange(pid, file)});
    if (path.empty()) continue;
    std::optional<PythonRuntime> python = FindRuntimeIn(path, file, read);
    if (!python) continue;
    if (python->state == kPythonNoPermission) python->reason = DenialReason(pid, python->error);
    return *std::move(python);
  }
  return other;
}

}  // namespace tbprof
