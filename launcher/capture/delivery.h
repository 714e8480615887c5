// SPDX-License-Identifier: Apache-2.0
//
// Delivery of a profile to a client: the private directory that the profile is written to, and the files that are sent.
//
//   std::shared_ptr<PrivateDirectory> directory = MakePrivateDirectory(session);   // null: creating it failed
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

#include "launcher/capture/captures.h"
#include "launcher/convert/conversion.h"
#include "launcher/session/session.h"
#include "writer/base/scoped.h"

namespace tbprof {

// Creates the directory beside the spool, which has room for a profile; if that fails, beside the control socket.
std::shared_ptr<PrivateDirectory> MakePrivateDirectory(const Session& session);

struct DeliveredFiles {
  std::vector<std::string> names;  // as sent to the client; the command's own rank first
  std::vector<ScopedFd> files;
  uint64_t bytes = 0;  // of the profiles
};
// Opens only the profiles that this conversion has published: a shared directory may hold other profiles of the same
// host. `with_summary`: also its summary, as the last file.
DeliveredFiles OpenDelivered(const ConversionRequest& request, const ConversionResult& result, bool with_summary);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_DELIVERY_H_
