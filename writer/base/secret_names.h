// SPDX-License-Identifier: Apache-2.0
//
// Detects secrets by the name of an option, variable or field, and by the form of a value.
//
// Pure functions, linear in the text.
#ifndef TBPROF_WRITER_BASE_SECRET_NAMES_H_
#define TBPROF_WRITER_BASE_SECRET_NAMES_H_

#include <cstddef>
#include <string_view>

namespace tbprof {

enum class SecretKind {
  kNone,
  kMaybe,     // `--sort-key`: a secret if the value looks random
  kKey,       // `--api-key`: a secret unless the value names a file
  kToken,     // `--hf-token`, `--auth`: a secret unless the value names a switch setting or a scheme
  kPassword,  // a secret, whatever the value is
};

// `--db-pass`, `HF_TOKEN`, `spring.datasource.password`, `X-Api-Key`; with or without leading dashes.
SecretKind KindOfName(std::string_view name);
// The kind of a parameter name in the query of a URL, where `sig` and `key` are secrets as well.
SecretKind KindOfQueryName(std::string_view name);
// Whether an option of this name takes no value: `--ask-pass`, `--use-auth-token`.
bool IsSwitchName(std::string_view name);

bool IsSecretValue(SecretKind kind, std::string_view value);

// A run of letters and digits that no user types, or a UUID.
bool LooksRandom(std::string_view value);
// The length of the token at the beginning of `text`, detected by the prefixes of the services that issue tokens; 0:
// none.
size_t LengthOfKnownToken(std::string_view text);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SECRET_NAMES_H_
