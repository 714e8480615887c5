/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in of PyTorch's libraries offers to a program that opens it, beside the names that PyTorch has: ways
 * to have it work, and what was asked of it. Looked up by dlsym, as Python finds the real ones.
 */
#ifndef TBPROF_TESTS_SIM_TORCH_TORCH_H_
#define TBPROF_TESTS_SIM_TORCH_TORCH_H_

#include <stdint.h>

enum SimTorchScope { SIM_TORCH_FUNCTION = 0, SIM_TORCH_BACKWARD = 1, SIM_TORCH_SCRIPT = 2, SIM_TORCH_USER = 7 };

struct SimTorchOperation {
  int scope;
  const char* name;
  int64_t sequence;        /* -1: none */
  uint64_t forward_thread; /* of a backward node */
  int asynchronous;        /* ends where sim_torch_end is called, on any thread */
};

/* An operation around `body`, which may be null. */
typedef void (*SimTorchRun)(const struct SimTorchOperation* operation, void (*body)(void*), void* argument);
/* The same in two calls. */
typedef void* (*SimTorchBegin)(const struct SimTorchOperation* operation);
typedef void (*SimTorchEnd)(void* function);
/* at::empty, and its memory given back. */
typedef void (*SimTorchTensor)(uint64_t bytes);
/* What sequence_number::peek says on this thread. */
typedef void (*SimTorchSetSequence)(int64_t sequence);
/* As c10::TensorImpl of 2.13.0 has its fields; what it says of its sizes when it is asked stands in place of others. */
struct SimTorchTensorImpl {
  char first[16];
  const int64_t* told;
  uint64_t told_rank;
  char second[24];
  uint64_t rank;
  union {
    int64_t sizes[10]; /* and strides; up to five */
    const int64_t* more_sizes;
  };
  int64_t offset;
  int64_t elements;
  char third[6];
  uint8_t policy; /* in its third and fourth bit: 2 where it has sizes of its own */
  char fourth[9];
};
/* c10::IValue: a tensor if `tag` is 1. */
struct SimTorchValue {
  const struct SimTorchTensorImpl* tensor;
  uint32_t tag;
  uint32_t unused;
};
/* The values that the next operation of this thread is given, the last `arguments` of them its own. */
typedef void (*SimTorchGive)(const struct SimTorchValue* values, uint64_t given, uint64_t arguments);
/* libc10's: what stands in for a tensor that is none. */
typedef const struct SimTorchTensorImpl* (*SimTorchUndefined)(void);
/* PyTorch's own number of this thread. */
typedef uint64_t (*SimTorchThread)(void);
/* How often each was called: 0 addGlobalCallback, 1 disableCallback, 2 reenableCallback; 3: operations somebody saw. */
typedef uint64_t (*SimTorchCount)(int what);
// Whether PyTorch's own lock is taken.
typedef int (*SimTorchIsLocked)(void);
/* What libc10's own function was told: 0 the sum of bytes, 1 how often. */
typedef int64_t (*SimTorchReported)(int what);
/* libc10_cuda.so: the caching allocator of device memory: what it reports; `device` is its index, or -1: of the host.
 */
typedef void (*SimTorchReport)(void* block, int64_t bytes, uint64_t allocated, uint64_t reserved, int device);

#endif /* TBPROF_TESTS_SIM_TORCH_TORCH_H_ */
