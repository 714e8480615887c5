// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in library.h.
#include "cupti/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>

#include "cupti/text.h"
#include "wire/cupti_names.h"
#include "wire/raw.h"

namespace tbprof::cupti {
namespace {

using Path = Text<Library::kTextBytes>;

class Search {
 public:
  void Start(int driver_version, Library* library) {
    driver_major_ = driver_version / 1000;
    library_ = library;
  }

  bool Mapped() {
    for (const CuptiName& soname : kCuptiNames) {
      if (void* handle = dlopen(soname.file, RTLD_NOW | RTLD_NOLOAD); handle != nullptr) {
        if (Use(handle, soname)) return true;
      }
    }
    return false;
  }

  // Searches near the libraries of this process that belong to the CUDA runtime or to Python packages.
  bool BesideMapped() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* search) {
          static_cast<Search*>(search)->Note(info->dlpi_name);
          return 0;
        },
        this);
    for (uint32_t i = 0; i < place_count_; ++i) {
      if (In(places_[i].get())) return true;
    }
    return false;
  }

  bool Toolkit() {
    static constexpr const char* kVariables[] = {"CUDA_HOME", "CUDA_PATH"};
    for (const char* variable : kVariables) {
      const char* home = getenv(variable);
      if (home == nullptr || home[0] != '/') continue;
      if (In(Path().Add(home).Add("/extras/CUPTI/lib64").get()) || In(Path().Add(home).Add("/lib64").get()))
        return true;
    }
    return false;
  }

  // The default directory of the toolkit. It is tried after the loader's search, so that LD_LIBRARY_PATH comes first.
  bool UsualPlace() { return In("/usr/local/cuda/extras/CUPTI/lib64") || In("/usr/local/cuda/lib64"); }

  bool Loader() {
    for (const CuptiName& soname : kCuptiNames) {
      if (Fits(soname) && Open(soname.file, soname)) return true;
    }
    return false;
  }

 private:
  bool Fits(const CuptiName& soname) const { return driver_major_ == 0 || soname.major <= driver_major_; }

  void AddPlace(const Path& path) {
    for (uint32_t i = 0; i < place_count_; ++i) {
      if (StartsWith(places_[i].get(), path.get()) && places_[i].length() == path.length()) return;
    }
    if (place_count_ < kMostPlaces) places_[place_count_++] = path;
  }

  void Note(const char* name) {
    if (name == nullptr || name[0] != '/') return;
    if (FindText(name, "/libcudart.so") != nullptr) {
      uint32_t directory = TextLength(name);
      while (name[directory] != '/') --directory;
      AddPlace(Path().Add(name, directory));
      AddPlace(Path().Add(name, directory).Add("/../extras/CUPTI/lib64"));
      AddPlace(Path().Add(name, directory).Add("/../../cuda_cupti/lib"));
    }
    static constexpr const char* kPackages[] = {"/site-packages/", "/dist-packages/"};
    for (const char* packages : kPackages) {
      const char* const at = FindText(name, packages);
      if (at == nullptr) continue;
      const auto length = static_cast<uint32_t>(at - name) + TextLength(packages);
      AddPlace(Path().Add(name, length).Add("nvidia/cu13/lib"));
      AddPlace(Path().Add(name, length).Add("nvidia/cuda_cupti/lib"));
    }
  }

  bool In(const char* directory) {
    for (const CuptiName& soname : kCuptiNames) {
      const Path path = Path().Add(directory).Add("/").Add(soname.file);
      if (Fits(soname)) {
        if (Open(path.get(), soname)) return true;
      } else if (raw::Call(SYS_faccessat, AT_FDCWD, raw::Pointer(path.get()), 0) == 0) {
        Tried(path.get(), kNewer);
      }
    }
    return false;
  }

  bool Open(const char* path, const CuptiName& soname) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      // The older names are tried for completeness; a missing one is not reported.
      const char* const why = dlerror();
      if (soname.major >= 12) Tried(path, why != nullptr ? why : "cannot be opened");
      return false;
    }
    return Use(handle, soname);
  }

  bool Use(void* handle, const CuptiName& soname) {
    link_map* map = nullptr;
    const char* path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : soname.file;
    if (!Fits(soname)) {
      Tried(path, kNewer);
      return false;
    }
    Functions functions{};
#define TBPROF_FIND(member, name, result, parameters, required)                          \
  functions.member = reinterpret_cast<decltype(functions.member)>(dlsym(handle, #name)); \
  if (required && functions.member == nullptr) {                                         \
    Tried(path, "has no " #name);                                                        \
    return false;                                                                        \
  }
    TBPROF_CUPTI_FUNCTIONS(TBPROF_FIND)
#undef TBPROF_FIND
    if (functions.get_version(&library_->version) != kSuccess) {
      Tried(path, "does not report its version");
      return false;
    }
    library_->functions = functions;
    const Path kept = Path().Add(path);
    for (uint32_t i = 0; i <= kept.length(); ++i) library_->path[i] = kept.get()[i];
    return true;
  }

  void Tried(const char* path, const char* why) {
    if (library_->tried_count >= Library::kMostTried) return;
    // An error text of the loader already begins with the path.
    const Path text = StartsWith(why, path) ? Path().Add(why) : Path().Add(path).Add(": ").Add(why);
    char* const to = library_->tried[library_->tried_count++];
    for (uint32_t i = 0; i <= text.length(); ++i) to[i] = text.get()[i];
  }

  static constexpr const char* kNewer = "newer than the driver";
  static constexpr uint32_t kMostPlaces = 12;
  int driver_major_ = 0;
  Library* library_ = nullptr;
  Path places_[kMostPlaces];
  uint32_t place_count_ = 0;
};

// Too large for the stack of the thread that calls cuInit.
Search g_search;

}  // namespace

uint32_t LoadedCopies() {
  uint32_t copies = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* count) {
        const char* const name = info->dlpi_name;
        if (name != nullptr && FindText(name, "/libcupti.so") != nullptr) ++*static_cast<uint32_t*>(count);
        return 0;
      },
      &copies);
  return copies;
}

bool OpenLibrary(int driver_version, Library* library) {
  g_search.Start(driver_version, library);
  const bool found =
      g_search.Mapped() || g_search.BesideMapped() || g_search.Toolkit() || g_search.Loader() || g_search.UsualPlace();
  // Clears this thread's dlerror: the error is not one of the program.
  dlerror();
  return found;
}

}  // namespace tbprof::cupti
