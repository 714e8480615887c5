// SPDX-License-Identifier: Apache-2.0
//
// Owners of kernel resources: a descriptor, the listing of a directory, a mapping.
//
// Process: launcher and converter. Not thread-safe.
#ifndef TBPROF_WRITER_BASE_SCOPED_H_
#define TBPROF_WRITER_BASE_SCOPED_H_

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace tbprof {

class ScopedFd {
 public:
  ScopedFd() = default;
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(ScopedFd&& other) noexcept : fd_(other.Release()) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~ScopedFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using ScopedDirectory = std::unique_ptr<DIR, CloseDirectory>;

class ScopedMapping {
 public:
  ScopedMapping() = default;
  // Takes the result of mmap; MAP_FAILED becomes an empty mapping.
  ScopedMapping(void* address, size_t size)
      : address_(address == MAP_FAILED ? nullptr : address), size_(address_ == nullptr ? 0 : size) {}
  ScopedMapping(ScopedMapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ScopedMapping& operator=(ScopedMapping&& other) noexcept {
    if (this != &other) {
      Reset();
      address_ = std::exchange(other.address_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~ScopedMapping() { Reset(); }

  bool valid() const { return address_ != nullptr; }
  void* data() const { return address_; }
  size_t size() const { return size_; }
  void Reset() {
    if (address_ != nullptr) munmap(address_, size_);
    address_ = nullptr;
    size_ = 0;
  }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SCOPED_H_
