// SPDX-License-Identifier: Apache-2.0
//
// Hides the exported names of CUDA, CUPTI, NCCL and NVTX functions, which few programs have
// (docs/decisions/037-one-pointer-for-each-hook.md). A program that checks whether such a name exists must get the same
// result as without tbprof:
//
//   dlsym                    never finds the names here: they have a hidden version (TBPROF_EXPORT_HIDDEN). For a
//                            function that it finds elsewhere, it may return a hook.
//   references at the start  are bound to the hooks; weak ones that no other object defines are reset to null.
//   references that come     get null if no object of the process has the name: from the first hook on the names are
//   later, dlvsym            indirect functions (STT_GNU_IFUNC), which the loader calls each time. They cannot be
//                            indirect from the beginning: the loader relocates other objects before this one.
//
// Process: target, when the first hook is called: constructors of other libraries run before this library's. A
// constructor that checks before it calls any hook finds the names (docs/decisions/037-one-pointer-for-each-hook.md).
// Rules: RULES.md.
#ifndef TBPROF_PRELOAD_LATE_NAMES_H_
#define TBPROF_PRELOAD_LATE_NAMES_H_

namespace tbprof {

void HideLateNames();  // once; later calls do nothing

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_LATE_NAMES_H_
