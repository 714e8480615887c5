// SPDX-License-Identifier: Apache-2.0
//
// The exported names of CUDA, CUPTI, NCCL and NVTX, which few programs have
// (docs/decisions/037-one-pointer-for-each-hook.md). A program may ask whether they are there, and gets the answer that
// it would get without us:
//
//   dlsym                    never finds them here: they have a hidden version (TBPROF_EXPORT_HIDDEN). What it finds
//                            elsewhere it may give a hook for.
//   references at the start  lead to us; those that are weak and that nobody else answers are put back to null.
//   references that come     get null where no object of the process has the name: from the first hook on the names
//   later, dlvsym            are indirect functions (STT_GNU_IFUNC), which the loader asks each time. They can't be
//                            from the beginning: the loader relocates other objects before this one.
//
// Process: target, when the first of our hooks is called: constructors of other libraries run before ours. One that
// asks before it calls any hook finds the names (docs/decisions/037-one-pointer-for-each-hook.md). Rules: RULES.md.
#ifndef TBPROF_PRELOAD_LATE_NAMES_H_
#define TBPROF_PRELOAD_LATE_NAMES_H_

namespace tbprof {

void HideLateNames();  // once; later calls do nothing

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_LATE_NAMES_H_
