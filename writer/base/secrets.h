// SPDX-License-Identifier: Apache-2.0
//
// Masks the secrets in command lines and URLs. The detection is a guess: a program may use any option `--x` for a
// password.
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

// Handles the words in order; a masked value becomes `***`. Masking twice gives the same result.
std::vector<std::string> MaskSecrets(const std::vector<std::string>& arguments);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SECRETS_H_
