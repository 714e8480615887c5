// SPDX-License-Identifier: Apache-2.0
// input_steps DIRECTORY COUNT INPUT_US COMPUTE_US [NAPS]: COUNT steps of a training with a stand-in of PyTorch
// (DIRECTORY/lib/libtorch_cpu.so, tests/sim/torch), each a batch of its DataLoader, NAPS short sleeps and an optimizer.
// Prints the shares of the steps' time that the batches and the sleeps took by its own clock.
#include "../sim/torch/torch.h"

#include <dlfcn.h>

#include "facts.h"

static SimTorchRun run;
static double waited, slept;

static double Microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void Spin(void* argument) {
  const double end = Microseconds() + *(const double*)argument;
  while (Microseconds() < end) {
  }
}

static void User(const char* name, double microseconds) {
  const struct SimTorchOperation operation = {SIM_TORCH_USER, name, -1, 0, 0};
  run(&operation, Spin, &microseconds);
}

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  char path[4096];
  snprintf(path, sizeof(path), "%s/lib/libtorch_cpu.so", argv[1]);
  void* const library = dlopen(path, RTLD_LOCAL | RTLD_LAZY);
  if (library == NULL) return 2;
  run = (SimTorchRun)dlsym(library, "sim_torch_run");
  ((SimTorchTensor)dlsym(library, "sim_torch_tensor"))(1000);
  const long count = atol(argv[2]), naps = argc > 5 ? atol(argv[5]) : 0;
  double first = 0;
  for (long step = 0; step < count; ++step) {
    const double start = Microseconds();
    if (step == 0) first = start;
    User("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", atof(argv[3]));
    waited += Microseconds() - start;
    const double sleeps = Microseconds();
    for (long i = 0; i < naps; ++i) usleep(1);
    slept += Microseconds() - sleeps;
    double compute = atof(argv[4]);
    Spin(&compute);
    User("Optimizer.step#SGD.step", 1);
  }
  const double whole = Microseconds() - first;
  printf("[%.4f, %.4f]\n", waited / whole, slept / whole);
  return 0;
}
