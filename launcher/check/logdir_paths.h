// SPDX-License-Identifier: Apache-2.0
//
// Names and paths as TensorBoard's profile plugin reads them.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_

#include <string>
#include <string_view>

#include "launcher/base/paths.h"

namespace tbprof {

// `word` was probably meant to be `name`: other case, one letter more or less.
bool IsNear(std::string_view word, std::string_view name);

// The end of the first component with a closed `[…]`, which Python's glob takes for a class of characters: such a path
// fits other names than its own. npos if there is none.
size_t PatternEnd(std::string_view path);
// Likewise, of a pattern or of bytes that are no UTF-8: xprof lists nothing below such a place.
size_t HiddenEnd(std::string_view path);
// The name without the brackets of a pattern, and without what a file name should not hold.
std::string PlainName(std::string_view name);

// The host in `<host>.xplane.pb`, as the plugin's own pattern takes it; empty: none.
std::string HostOf(std::string_view file_name);
// For a profile in a file of another name: from that name, or from the profile, or `localhost`.
std::string HostFor(std::string_view file_name, std::string_view own);
// xprof misreads such a host in a request.
bool IsOddHost(std::string_view host);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_
