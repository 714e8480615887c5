// SPDX-License-Identifier: Apache-2.0
//
// What a client gets: the private directory that its profile is written to, and the files that are sent.
//
//   std::shared_ptr<PrivateDirectory> directory = MakePrivateDirectory(session);   // null: there is no room for one
//   ... a conversion writes there ...
//   DeliveredFiles files = OpenDelivered(request, result);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_CAPTURE_DELIVERY_H_
#define TBPROF_LAUNCHER_CAPTURE_DELIVERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/scoped.h"
#include "launcher/capture/captures.h"
#include "launcher/convert/conversion.h"
#include "launcher/session/session.h"

namespace tbprof {

// Beside the spool, where there is room; where its directory was removed, the answer can wait anywhere.
std::shared_ptr<PrivateDirectory> MakePrivateDirectory(const Session& session);

struct DeliveredFiles {
  std::vector<std::string> names;  // as the client gets them; the command's own rank first
  std::vector<ScopedFd> files;
  uint64_t bytes = 0;
};
// The profiles that this conversion has published: a shared directory may have others of the same host.
DeliveredFiles OpenDelivered(const ConversionRequest& request, const ConversionResult& result);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_DELIVERY_H_
