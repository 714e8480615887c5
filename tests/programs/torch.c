// SPDX-License-Identifier: Apache-2.0
// torch DIRECTORY MODE...: opens DIRECTORY/lib/libtorch_cpu.so as Python does, a stand-in of PyTorch's
// (tests/sim/torch), and has it work. Modes: ops, race, thread, forks_beside, storm COUNT STEPS MICROSECONDS [IDLE_MS],
// train OPERATIONS, loop, fork,
// odd, wrong, asynchronous COUNT, ends exit|kill, forks_in_a_pause, forks_a_worker, memory COUNT. Facts: what was
// requested of PyTorch.
#include "../sim/torch/torch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "facts.h"

static SimTorchRun run;
static SimTorchBegin begin;
static SimTorchEnd end;
static SimTorchTensor tensor;
static SimTorchSetSequence set_sequence;
static SimTorchThread thread_number;
static SimTorchCount count_of;
static SimTorchIsLocked is_locked;

static SimTorchGive give;
static SimTorchUndefined undefined;

static SimTorchReport report;
static SimTorchReported reported;

// Later than the rest.
static void OpenCuda(const char* directory) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/lib/libc10_cuda.so", directory);
  void* const library = dlopen(path, RTLD_LOCAL | RTLD_LAZY);
  if (library == NULL) exit(2);
  report = (SimTorchReport)dlsym(library, "sim_torch_report");
}

static void Open(const char* directory) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/lib/libtorch_cpu.so", directory);
  void* const library = dlopen(path, RTLD_LOCAL | RTLD_LAZY);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  run = (SimTorchRun)dlsym(library, "sim_torch_run");
  begin = (SimTorchBegin)dlsym(library, "sim_torch_begin");
  end = (SimTorchEnd)dlsym(library, "sim_torch_end");
  tensor = (SimTorchTensor)dlsym(library, "sim_torch_tensor");
  set_sequence = (SimTorchSetSequence)dlsym(library, "sim_torch_set_sequence");
  thread_number = (SimTorchThread)dlsym(library, "sim_torch_thread");
  reported = (SimTorchReported)dlsym(library, "sim_torch_reported");
  give = (SimTorchGive)dlsym(library, "sim_torch_give");
  undefined = (SimTorchUndefined)dlsym(library, "sim_torch_undefined");
  count_of = (SimTorchCount)dlsym(library, "sim_torch_count");
  is_locked = (SimTorchIsLocked)dlsym(library, "sim_torch_is_locked");
}

static void ReportCounts(void) {
  Report("added", count_of(0));
  Report("disabled", count_of(1));
  Report("enabled", count_of(2));
  Report("seen", count_of(3));
}

static void Operation(const char* name, int64_t sequence, void (*body)(void*), void* argument) {
  const struct SimTorchOperation operation = {SIM_TORCH_FUNCTION, name, sequence, 0, 0};
  if (sequence >= 0) set_sequence(sequence);
  run(&operation, body, argument);
}
static void Backward(const char* name, int64_t sequence, uint64_t forward_thread, void (*body)(void*), void* argument) {
  const struct SimTorchOperation operation = {SIM_TORCH_BACKWARD, name, sequence, forward_thread, 0};
  run(&operation, body, argument);
}
static void User(const char* name, void (*body)(void*), void* argument) {
  const struct SimTorchOperation operation = {SIM_TORCH_USER, name, -1, 0, 0};
  run(&operation, body, argument);
}

static void Spin(long microseconds) {
  const double start = Milliseconds();
  while (microseconds > 0 && (Milliseconds() - start) * 1000 < (double)microseconds) {
  }
}
static void Work(void* argument) {
  (void)argument;
  tensor(4096);
  SleepUnseen(1);
}

static void Addmm(void* argument) {
  (void)argument;
  Operation("aten::addmm", 7, Work, NULL);
}
static void Linear(void* argument) {
  (void)argument;
  Operation("aten::linear", -1, Addmm, NULL);
  const struct SimTorchOperation script = {SIM_TORCH_SCRIPT, "a function of TorchScript", -1, 0, 0};
  run(&script, Work, NULL);
}

static void* BackwardThread(void* forward_thread) {
  Report("backward_thread", thread_number());
  Backward("AddmmBackward0", 7, *(uint64_t*)forward_thread, Work, NULL);
  return NULL;
}

static void Ops(void) {
  tensor(1000);
  User("my range", Linear, NULL);
  uint64_t forward_thread = thread_number();
  Report("forward_thread", forward_thread);
  pthread_t thread;
  pthread_create(&thread, NULL, BackwardThread, &forward_thread);
  pthread_join(thread, NULL);
  puts("ops");
}

static int started;
static void* Allocates(void* argument) {
  while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) == 0) {
  }
  for (int i = 0; i < 20000; ++i) {
    tensor(100);
    if (argument != NULL) Operation("aten::racing", i, NULL, NULL);
  }
  return NULL;
}

static void Race(void) {
  pthread_t threads[2];
  static int yes;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Allocates, &yes);
  __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2000; ++i) tensor(100);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  Operation("aten::after", -1, NULL, NULL);
  puts("race");
}

static void OptimizerStep(void* argument) {
  (void)argument;
  for (int i = 0; i < 10; ++i) Operation("aten::add_", -1, NULL, NULL);
}

static int ended;
static void* TrainsUntilEnded(void* argument) {
  for (long step = 0; __atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 0; ++step) {
    for (long i = 0; i < 100; ++i) {
      tensor(64);
      Operation("aten::add", i, NULL, NULL);
    }
    User("Optimizer.step#SGD.step", OptimizerStep, NULL);
  }
  return argument;
}

// The main thread forks while another one trains, until PyTorch's list of observers has changed some times.
static void ForksBeside(void) {
  enum { kChanges = 12, kFewest = 200, kMost = 20000 };
  pthread_t thread;
  uint64_t taken = 0;
  pthread_create(&thread, NULL, TrainsUntilEnded, NULL);
  for (int i = 0; i < kFewest || (i < kMost && count_of(1) + count_of(2) < kChanges); ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(is_locked());
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) ++taken;
  }
  __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  Report("taken", taken);
}

// The main thread has no tensor.
static void OtherThread(void) {
  pthread_t thread;
  static int yes;
  started = 1;
  pthread_create(&thread, NULL, Allocates, &yes);
  pthread_join(thread, NULL);
  puts("thread");
}

struct Storm {
  long from, to, microseconds;
};
static void StormOf(void* argument) {
  const struct Storm* storm = argument;
  for (long i = storm->from; i < storm->to; ++i) {
    Operation("aten::add", i, NULL, NULL);
    Spin(storm->microseconds);
    if (i % 16 == 0) tensor(64);
  }
}
static void Run(long count, long steps, long microseconds, int idle_ms) {
  tensor(1000);
  SleepUnseen(idle_ms);
  for (long step = 0; step < (steps == 0 ? 1 : steps); ++step) {
    const long each = steps == 0 ? count : count / steps;
    struct Storm storm = {step * each, (step + 1) * each, microseconds};
    if (steps != 0) User(step % 2 == 0 ? "enumerate(DataLoader)#Loader.__next__" : "another range", NULL, NULL);
    StormOf(&storm);
    if (steps != 0) User("Optimizer.step#SGD.step", OptimizerStep, NULL);
  }
  puts("storm");
}

// Steps of so many operations, until there is a file `stop`.
static void Train(long each) {
  tensor(1000);
  for (long step = 0; access("stop", F_OK) != 0; ++step) {
    struct Storm storm = {0, each, 2};
    StormOf(&storm);
    User("Optimizer.step#SGD.step", OptimizerStep, NULL);
    if (step == 400) Report("warm", (uint64_t)step);
  }
  puts("train");
}

// Until there is a file `stop`. Prints what changed.
static void Loop(void) {
  uint64_t last[3] = {0, 0, 0};
  const char* const names[] = {"added", "disabled", "enabled"};
  for (long turn = 0; access("stop", F_OK) != 0; ++turn) {
    tensor(100);
    for (int i = 0; i < 20; ++i) Operation("aten::add", i, NULL, NULL);
    SleepUnseen(1);
    for (int i = 0; i < 3; ++i) {
      if (count_of(i) != last[i]) Report(names[i], count_of(i));
      last[i] = count_of(i);
    }
    if (turn == 100) Report("warm", count_of(0));
  }
  puts("loop");
}

static void ForkInside(void* argument) {
  (void)argument;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    tensor(100);
    for (int i = 0; i < 3; ++i) Operation("aten::of_the_child", -1, Work, NULL);
    Report("added_with_child", count_of(0));
    _exit(0);
  }
  waitpid(child, NULL, 0);
}
static void Forks(void) {
  tensor(100);
  Operation("aten::of_the_parent", -1, ForkInside, NULL);
  Operation("aten::behind_it", -1, Work, NULL);
  puts("fork");
}

// A child that works with what it has inherited, while its parent does: more than what is called in vain, and so little
// that all of it is recorded however long it takes.
static void ForksAWorker(void) {
  tensor(100);
  Operation("aten::of_the_parent", -1, NULL, NULL);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 1100; ++i) {
      tensor(100);
      Operation("aten::of_the_child", -1, NULL, NULL);
    }
    Report("disabled_in_child", count_of(1));
    const uint64_t seen = count_of(3);
    for (int i = 0; i < 100; ++i) {
      tensor(100);
      Operation("aten::of_the_child", -1, NULL, NULL);
    }
    Report("seen_at_the_end", count_of(3) - seen);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  Operation("aten::of_the_parent", -1, NULL, NULL);
  puts("fork of a worker");
}

// The child begins with its parent's pause, which is none of its own.
static void ForksInAPause(void) {
  tensor(100);
  for (int i = 0; i < 100; ++i) {
    struct Storm storm = {0, 1000, 0};
    StormOf(&storm);
    User("Optimizer.step#SGD.step", NULL, NULL);
  }
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const double start = Milliseconds();
    while (Milliseconds() - start < 2500) {
      User("Optimizer.step#SGD.step", NULL, NULL);
      Operation("aten::of_the_child", -1, Work, NULL);
    }
    _exit(0);
  }
  waitpid(child, NULL, 0);
  puts("fork in a pause");
}

static void Allocates4(void* argument) {
  (void)argument;
  for (int i = 1; i <= 4; ++i) report((void*)(uintptr_t)(0x1000 * i), 1 << 20, (uint64_t)i << 20, 8 << 20, 1);
}
static void Memory(int count) {
  tensor(100);
  Operation("aten::empty", -1, Allocates4, NULL);
  report((void*)(uintptr_t)0x3000, -(1 << 20), 3 << 20, 8 << 20, 1);
  report((void*)(uintptr_t)0x5000, 500, 500, 500, -1);  // of the host
  for (int i = 0; i < count; ++i) {
    report((void*)(uintptr_t)0x9000, 1000 + i, (3 << 20) + 1000 + (uint64_t)i, 8 << 20, 0);
    report((void*)(uintptr_t)0x9000, -(1000 + i), 3 << 20, 8 << 20, 0);
  }
  printf("memory %lld %lld\n", (long long)reported(0), (long long)reported(1));
}

static void Odd(void) {
  static char huge[1 << 20];
  memset(huge, 'x', sizeof(huge) - 1);
  tensor(100);
  Operation(huge, 1, Work, NULL);
  Operation("bad \xff\xfe utf-8", 1, Work, NULL);
  Operation("", 1, Work, NULL);
  User("train", Work, NULL);
  Backward("Bad\xc3", INT64_MAX, UINT64_MAX, Work, NULL);
  Operation("aten::minimum", INT64_MIN, Work, NULL);
  puts("odd");
}

// The number is not the one that peek gives.
static void Wrong(void) {
  tensor(100);
  const struct SimTorchOperation operation = {SIM_TORCH_FUNCTION, "aten::mm", 4711, 0, 0};
  set_sequence(7);
  for (int i = 0; i < 5; ++i) run(&operation, Work, NULL);
  Backward("MmBackward0", 4711, 1, Work, NULL);
  puts("wrong");
}

struct Tensor {
  struct SimTorchTensorImpl implementation;
  int64_t sizes[100];
};
static struct SimTorchValue ValueOf(struct Tensor* made, int rank, const int64_t* sizes) {
  struct SimTorchTensorImpl* const tensor = &made->implementation;
  memset(tensor, 0x5a, sizeof(*tensor));
  tensor->told = memcpy(made->sizes, sizes, (size_t)rank * sizeof(*sizes));
  tensor->told_rank = tensor->rank = (uint64_t)rank;
  if (rank > 5) tensor->more_sizes = made->sizes;
  if (rank <= 5) memcpy(tensor->sizes, sizes, (size_t)rank * sizeof(*sizes));
  tensor->elements = 1;
  for (int i = 0; i < rank; ++i) tensor->elements *= sizes[i];
  tensor->policy = (uint8_t)~0xc;
  const struct SimTorchValue value = {tensor, 1, 0};
  return value;
}
// Operations with tensors of all kinds; `how`: what is not as in the release.
static void Shapes(const char* how) {
  static struct Tensor a, b, c;
  tensor(100);
  const int64_t matrix[] = {32, 64}, image[] = {8, 3, 224, 224}, empty[] = {7, 0, 5},
                high[] = {2, 1, 3, 1, 2, 1, 4, 1, 1, 1, 1, 1};
  struct SimTorchValue values[40];
  memset(values, 0, sizeof(values));
  values[0] = ValueOf(&a, 2, matrix);
  values[2] = ValueOf(&b, 4, image);
  give(values, 3, 3);
  Operation("aten::early", -1, NULL, NULL);
  values[2] = ValueOf(&c, 12, high);
  give(values, 3, 3);
  Operation("aten::high", -1, NULL, NULL);
  for (int i = 0; i < 100; ++i) {
    give(values, 1, 1);
    Operation("aten::mm", 3, NULL, NULL);
  }
  give(values, 3, 3);
  Operation("aten::high", -1, NULL, NULL);
  give(values, 3, 1);
  Operation("aten::of_a_stack", -1, NULL, NULL);
  values[0] = ValueOf(&a, 3, empty);
  values[1] = ValueOf(&b, 0, NULL);
  values[2].tensor = undefined();
  give(values, 4, 4);
  Operation("aten::odd", 4, NULL, NULL);
  Operation("aten::without", 5, NULL, NULL);
  values[0] = ValueOf(&a, 2, matrix);
  a.implementation.policy = 8;
  a.implementation.rank = 1000;
  give(values, 1, 1);
  Operation("aten::symbolic", -1, NULL, NULL);
  for (int i = 0; i < 40; ++i) values[i] = ValueOf(&b, 4, image);
  give(values, 40, 40);
  Operation("aten::cat", -1, NULL, NULL);
  Backward("MmBackward0", 3, 1, NULL, NULL);
  if (strcmp(how, "count") == 0) give(values, 1, 2);
  if (strcmp(how, "rank") == 0) b.implementation.rank = 65;
  if (strcmp(how, "negative") == 0) b.implementation.sizes[0] = -8, b.implementation.sizes[1] = -3;
  if (strcmp(how, "elements") == 0) ++b.implementation.elements;
  if (strcmp(how, "count") != 0) give(values, 1, 1);
  Operation("aten::wrong", 6, NULL, NULL);
  values[0] = ValueOf(&b, 2, matrix);
  give(values, 1, 1);
  Operation("aten::behind_it", 7, NULL, NULL);
  puts("shapes");
}
// The first sizes are not those that PyTorch passes.
static void ShapesReportedOtherwise(void) {
  static struct Tensor a;
  tensor(100);
  const int64_t matrix[] = {32, 64};
  struct SimTorchValue value = ValueOf(&a, 2, matrix);
  a.sizes[1] = 65;
  for (int i = 0; i < 3; ++i) {
    give(&value, 1, 1);
    Operation("aten::mm", -1, NULL, NULL);
  }
  puts("shapes told otherwise");
}

static void* EndIt(void* function) {
  end(function);
  return NULL;
}
// Ranges that another thread ends, as those of a collective of c10d do.
static void Asynchronous(int count) {
  tensor(100);
  for (int i = 0; i < count; ++i) {
    const struct SimTorchOperation operation = {SIM_TORCH_USER, "gloo:all_reduce", -1, 0, 1};
    void* const function = begin(&operation);
    Operation("aten::meanwhile", -1, NULL, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, EndIt, function);
    pthread_join(thread, NULL);
    Operation("aten::after_it", -1, NULL, NULL);
  }
  // One whose object has another layout.
  const struct SimTorchOperation operation = {SIM_TORCH_USER, "ended elsewhere", -1, 0, 0};
  void* const function = begin(&operation);
  pthread_t thread;
  pthread_create(&thread, NULL, EndIt, function);
  pthread_join(thread, NULL);
  User("at the end", Work, NULL);
  puts("asynchronous");
}

static void Exits(void* argument) {
  SleepUnseen(5);
  fflush(stdout);
  if (strcmp(argument, "kill") == 0) kill(getpid(), SIGKILL);
  exit(3);
}
static void Outer(void* argument) { Operation("aten::inner", 3, Exits, argument); }
static void Ends(const char* how) {
  tensor(100);
  Operation("aten::before", -1, Work, NULL);
  SleepUnseen(200);  // longer than the launcher takes to have it
  User("outer", Outer, (void*)(uintptr_t)how);
}

int main(int argc, char** argv) {
  const char* mode = argc > 2 ? argv[2] : "ops";
  const char* word = argc > 3 ? argv[3] : "";
  Open(argv[1]);
  if (strcmp(mode, "ops") == 0) Ops();
  if (strcmp(mode, "race") == 0) Race();
  if (strcmp(mode, "thread") == 0) OtherThread();
  if (strcmp(mode, "forks_beside") == 0) ForksBeside();
  if (strcmp(mode, "storm") == 0) Run(atol(word), atol(argv[4]), atol(argv[5]), argc > 6 ? atoi(argv[6]) : 0);
  if (strcmp(mode, "train") == 0) Train(atol(word));
  if (strcmp(mode, "loop") == 0) Loop();
  if (strcmp(mode, "fork") == 0) Forks();
  if (strcmp(mode, "forks_in_a_pause") == 0) ForksInAPause();
  if (strcmp(mode, "forks_a_worker") == 0) ForksAWorker();
  if (strcmp(mode, "memory") == 0) {
    OpenCuda(argv[1]);
    Memory(atoi(word));
  }
  if (strcmp(mode, "shapes") == 0) {
    if (strcmp(word, "told") == 0) {
      ShapesReportedOtherwise();
    } else {
      Shapes(word);
    }
  }
  if (strcmp(mode, "odd") == 0) Odd();
  if (strcmp(mode, "wrong") == 0) Wrong();
  if (strcmp(mode, "asynchronous") == 0) Asynchronous(atoi(word));
  if (strcmp(mode, "ends") == 0) Ends(word);
  ReportCounts();
  return 0;
}
