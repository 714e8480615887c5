// SPDX-License-Identifier: Apache-2.0
#include "launcher/convert/conversion_wait.h"

#include <poll.h>

#include <memory>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {

absl::StatusOr<ConversionResult> ConvertAndWait(const ConversionRequest& request, std::string what,
                                                Terminal* terminal) {
  absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
  if (!conversion.ok()) return conversion.status();
  {
    Progress progress(terminal, std::move(what));
    while (!(*conversion)->Read()) {
      pollfd entry{(*conversion)->fd(), POLLIN, 0};
      poll(&entry, 1, 1000);
      progress.Update((*conversion)->done(), (*conversion)->total());
    }
  }
  const ConversionResult& result = (*conversion)->result();
  if (!result.status.ok()) {
    return absl::Status(result.status.code(), StrCat(PrintableUtf8(request.spool), ": ", result.status.message()));
  }
  return result;
}

}  // namespace tbprof
