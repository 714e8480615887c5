// SPDX-License-Identifier: Apache-2.0
//
// Finds the spools in a directory, locks them, and gives the storage kind of a directory.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SESSION_SPOOLS_H_
#define TBPROF_LAUNCHER_SESSION_SPOOLS_H_

#include <optional>
#include <string>
#include <vector>

#include "writer/base/file_ops.h"

namespace tbprof {

// The spools in `directory` and in its hidden directories (`.tbprof`), sorted. `links`: also follows hidden directories
// that are symbolic links of the caller or root.
std::vector<std::string> FindSpools(const std::string& directory, bool links = true);

// Whether a spool belongs to the caller or root. A spool of another user must not be converted without being named.
bool IsOwnSpool(const std::string& spool);

// Whether a launcher writes the spool, or a `recover` converts it.
bool IsSpoolInUse(const std::string& spool);
// Locks the spool for as long as the descriptor is open. Empty: a launcher writes it, or another `recover` converts it.
// Not valid: it cannot be opened.
std::optional<ScopedFd> LockSpool(const std::string& spool);

enum class Storage { kDisk, kMemory, kRemote };

// The storage of an open file or directory; kDisk if it is unknown.
Storage StorageOf(int fd);
Storage StorageOf(const std::string& path);

// The directory itself or the nearest one above it that exists.
std::string Existing(std::string path);

// Alternative directories for spools, best first: those of TMPDIR, /var/tmp and /tmp that are on a local disk.
std::vector<std::string> LocalDirectories();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SPOOLS_H_
