// SPDX-License-Identifier: Apache-2.0
//
// Shortens C++ function names for a terminal line.
#ifndef TBPROF_WRITER_BASE_SYMBOL_TEXT_H_
#define TBPROF_WRITER_BASE_SYMBOL_TEXT_H_

#include <string>
#include <string_view>

namespace tbprof {

// `void at::native::(anonymous namespace)::max_pool<float>(at::Tensor const&)` gives `at::native::max_pool`. Other
// names, such as `[libgomp.so.1]`, stay unchanged. `name` may be truncated anywhere.
std::string ShortSymbol(std::string_view name);

// `train.cc:39 Queue::get` of a call site with its line, as `Queue::get() (train.cc:39)`; else as ShortSymbol.
std::string ShortSite(std::string_view site);

// Code of a language's own library: `std::vector::push_back`, `__gthread_mutex_lock`, Rust's `core::...`. It is in the
// executable, too, if it is inlined, a template, or linked statically.
bool IsOfLanguageLibrary(std::string_view function);

// A file of the C library or its loader, by its name without directories: `libc.so.6`, `ld-musl-x86_64.so.1`.
bool IsCLibraryFile(std::string_view base_name);

// ShortSymbol for a name that may be of Python, whose names stay: `train.<locals>.step`.
std::string ShortFunction(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SYMBOL_TEXT_H_
