// SPDX-License-Identifier: Apache-2.0
//
// The readers of `tbprof check`: an events file, and the skimming of a profile. The first byte chooses. Records get
// their checksums here, so that the fuzzer gets past them; small limits make the reading of parts reachable.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "writer/logdir/event_file.h"
#include "writer/outputs/xspace_skim.h"

namespace {

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Record(std::string* file, const std::string& data) {
  std::string length;
  Put(&length, static_cast<uint64_t>(data.size()));
  *file += length;
  Put(file, tbprof::MaskedCrc32c(length));
  *file += data;
  Put(file, tbprof::MaskedCrc32c(data));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  static const int fd = memfd_create("events", MFD_CLOEXEC);
  if (size == 0) return 0;
  const uint8_t mode = data[0];
  ++data;
  --size;
  std::string file;
  if (mode % 4 == 0) {
    // length, payload
    while (size >= 2) {
      size_t length = data[0] | data[1] << 8;
      data += 2;
      size -= 2;
      length = length < size ? length : size;
      Record(&file, std::string(reinterpret_cast<const char*>(data), length));
      data += length;
      size -= length;
    }
  }
  file.append(reinterpret_cast<const char*>(data), size);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size())) return 0;
  if (mode % 4 == 1) {
    const XspaceFacts facts = SkimXspace(fd, file.size());
    if (facts.parsed && facts.truncated) abort();
    return 0;
  }
  EventFileLimits limits;
  limits.tags = 16;
  if (mode >= 128) {
    limits.whole = 64;
    limits.part = 1 + (mode & 31);
  }
  const EventFileFacts facts = ReadEventFile(fd, file.size(), limits);
  if (facts.end_offset > file.size() || facts.tags.size() > limits.tags || facts.bytes_skipped > file.size()) abort();
  if (facts.end == EventFileFacts::End::kClean && facts.end_offset != file.size()) abort();
  return 0;
}
