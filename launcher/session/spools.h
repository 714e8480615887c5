// SPDX-License-Identifier: Apache-2.0
//
// Spools that lie in a directory, whether a launcher still writes them, and what a directory is made of.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SESSION_SPOOLS_H_
#define TBPROF_LAUNCHER_SESSION_SPOOLS_H_

#include <string>
#include <vector>

namespace tbprof {

// `directory` itself and its hidden directories (`.tbprof`), sorted. `links`: those that are the caller's symbolic
// links as well.
std::vector<std::string> FindSpools(const std::string& directory, bool links = true);

// The caller's or root's. What another user has left where spools are looked for is nothing to convert unasked.
bool IsOwnSpool(const std::string& spool);

// Held by the launcher that writes it.
bool IsSpoolInUse(const std::string& spool);

enum class Storage { kDisk, kMemory, kRemote };

// Of an open file or directory. What cannot be told counts as a disk.
Storage StorageOf(int fd);
Storage StorageOf(const std::string& path);

// The directory itself or the nearest one above it that exists.
std::string Existing(std::string path);

// Where spools may lie instead, best first: TMPDIR, /var/tmp, /tmp, if they are on a disk of this machine.
std::vector<std::string> LocalDirectories();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SPOOLS_H_
