// SPDX-License-Identifier: Apache-2.0
//
// The one source that differs between the libraries of two CUDA versions.
namespace tbprof::sim {

extern const int kLibraryVersion;
const int kLibraryVersion = SIM_VERSION;

}  // namespace tbprof::sim
