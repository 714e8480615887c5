// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli), with the CPU's instruction if it has one. Used by spool frames and by TFRecord files.
//
// Process: launcher and converter. Any thread.
#ifndef TBPROF_WRITER_BASE_CRC32C_H_
#define TBPROF_WRITER_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace tbprof {

// Extends `crc` (0 to begin) by `size` bytes.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_CRC32C_H_
