// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/libraries.h"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launcher/base/paths.h"
#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/target/library_check.h"
#include "wire/gpu_bridge.h"
#include "wire/rendezvous.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Packages contain a second set of the libraries for glibc before 2.34. There, threads and the dynamic linker's
// functions are in separate libraries, which this set must name as needed: with a newer glibc each program would load
// them without need.
bool IsBefore234(const char* version) {
  int major = 0, minor = 0;
  return sscanf(version, "%d.%d", &major, &minor) == 2 && (major < 2 || (major == 2 && minor < 34));
}

}  // namespace

std::string OwnDirectory() {
  const std::string path = LinkText("/proc/self/exe");
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::StatusOr<Libraries> FindLibraries(const Environment& environment) {
  const std::string_view named = Lookup(environment, "TBPROF_LIBRARY_DIR").value_or("");
  std::string wanted(named);
  if (wanted.empty()) {
    const std::string own = OwnDirectory();
    if (own.empty()) return Unavailable("cannot find tbprof's libraries: /proc is not mounted");
    wanted = StrCat(own, "/../lib/tbprof");
  }
  Libraries libraries;
  libraries.directory = RealPath(wanted);
  if (const std::string older = StrCat(libraries.directory, "/glibc-2.17");
      IsBefore234(gnu_get_libc_version()) && access(older.c_str(), F_OK) == 0) {
    libraries.directory = older;
    libraries.for_older_glibc = true;
  }
  if (!libraries.directory.empty()) wanted = libraries.directory;
  libraries.preload = StrCat(libraries.directory, "/", kPreloadFileName);
  if (libraries.directory.empty() || access(libraries.preload.c_str(), R_OK) != 0) {
    const int cause = errno;
    return Unavailable(StrCat("cannot read ", PrintableUtf8(wanted), "/", kPreloadFileName, ": ", strerror(cause),
                              named.empty() ? "; is tbprof installed as a whole?" : " (TBPROF_LIBRARY_DIR)"));
  }
  if (const std::string fault = LibraryFault(libraries.preload, gnu_get_libc_version()); !fault.empty()) {
    return Unavailable(
        StrCat("cannot use ", PrintableUtf8(libraries.preload), ": it ", fault, "; install tbprof again"));
  }
  const std::string cupti = StrCat(libraries.directory, "/", kCuptiFileName);
  if (access(cupti.c_str(), R_OK) != 0) {
    libraries.no_cupti = StrCat("no ", kCuptiFileName, " in ", PrintableUtf8(libraries.directory));
  } else if (const std::string fault = LibraryFault(cupti, gnu_get_libc_version()); !fault.empty()) {
    libraries.no_cupti = StrCat(PrintableUtf8(cupti), " ", fault);
  } else {
    libraries.cupti = cupti;
  }
  // AddressSanitizer's runtime ends a program if a library is loaded before it, unless that library's name contains
  // `libasan.so`. tbprof's library passes every call on to the runtime. The path through a directory adds that part to
  // the name only: /proc/self/maps, where the static runtime rejects it, contains the path of the file.
  const std::string accepted = StrCat(libraries.directory, "/", kAcceptedDirectory, "/../", kPreloadFileName);
  if (access(accepted.c_str(), R_OK) == 0 && RealPath(accepted) == RealPath(libraries.preload)) {
    libraries.preload = accepted;
  }
  // The loader splits LD_PRELOAD at blanks and colons, and expands `$ORIGIN` and similar names. It has no quoting.
  if (libraries.preload.find_first_of(" \t\n:$") != std::string::npos) {
    return Unavailable(
        StrCat("cannot use ", PrintableUtf8(libraries.preload),
               ": LD_PRELOAD takes no path with a blank, colon or dollar sign; install tbprof elsewhere"));
  }
  return libraries;
}

}  // namespace tbprof
