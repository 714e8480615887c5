// SPDX-License-Identifier: Apache-2.0
//
// Readable names of Rust's functions: `polars_expr::reduce::Sum::update`. The type of an implementation stands for its
// trait, and generic arguments are left out: they would be most of the name.
//
// Process: converter. Pure functions; any input is safe.
#ifndef TBPROF_WRITER_SYMBOLS_RUST_NAMES_H_
#define TBPROF_WRITER_SYMBOLS_RUST_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

namespace tbprof {

// `mangled`: a name of Rust's own mangling, version 0 (`_R…`, RFC 2603). Nothing: it is not one.
std::optional<std::string> RustName(std::string_view mangled);

// `name`: the demangled form of a name of Rust's older mangling, `_$LT$app..Row$u20$as$u20$app..Sum$GT$::add::h0123…`.
// Nothing: it does not end with a hash.
std::optional<std::string> OldRustName(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_RUST_NAMES_H_
