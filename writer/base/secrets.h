// SPDX-License-Identifier: Apache-2.0
//
// Command lines and URLs without the secrets that they carry. By guess: what a program calls `--x` may be a password.
//
//   MaskSecrets({"train.py", "--db=postgres://me:pw@host/db?sslmode=on", "--lr=1"})
//       == {"train.py", "--db=postgres://me:***@host/db?sslmode=on", "--lr=1"}
//
// Pure functions, linear in the text.
#ifndef TBPROF_WRITER_BASE_SECRETS_H_
#define TBPROF_WRITER_BASE_SECRETS_H_

#include <string>
#include <vector>

namespace tbprof {

// Word by word; a masked value becomes `***`. Masking twice gives the same.
std::vector<std::string> MaskSecrets(const std::vector<std::string>& arguments);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SECRETS_H_
