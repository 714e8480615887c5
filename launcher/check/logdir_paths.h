// SPDX-License-Identifier: Apache-2.0
//
// Interprets names and paths as TensorBoard's profile plugin does.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_

#include <string>
#include <string_view>

#include "launcher/base/paths.h"

namespace tbprof {

// True: `word` is probably a misspelt `name`: other case, one letter more or less.
bool IsNear(std::string_view word, std::string_view name);

// The end of the first component with a closed `[…]`, which Python's glob reads as a class of characters: such a path
// matches other names than its own. npos if there is none.
size_t PatternEnd(std::string_view path);
// The end of the first component with such a pattern or with bytes that are not UTF-8: xprof lists nothing below it.
size_t HiddenEnd(std::string_view path);
// The name without pattern brackets, and without characters that a file name should not have.
std::string PlainName(std::string_view name);

// The host in `<host>.xplane.pb`, as the plugin's pattern extracts it; empty: none.
std::string HostOf(std::string_view file_name);
// The host for a profile in a file with another name: from that name, or from the profile (`own`), or `localhost`.
std::string HostFor(std::string_view file_name, std::string_view own);
// True: xprof misreads such a host in a request.
bool IsOddHost(std::string_view host);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_PATHS_H_
