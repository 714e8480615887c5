// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/python_origin.h"

#include <algorithm>

namespace tbprof {
namespace {

struct StarterRow {
  std::string_view file;  // end of the path
  std::string_view name;  // end of the function's name; empty: all functions of the file
};
constexpr StarterRow kStarters[] = {
    {"<frozen runpy>", ""},
    {"/runpy.py", ""},
    {"/threading.py", "_bootstrap"},
    {"/threading.py", "_bootstrap_inner"},
    {"/threading.py", "run"},
    {"/multiprocessing/context.py", ""},
    {"/multiprocessing/forkserver.py", ""},
    {"/multiprocessing/popen_fork.py", "__init__"},
    {"/multiprocessing/popen_fork.py", "_launch"},
    {"/multiprocessing/process.py", "_bootstrap"},
    {"/multiprocessing/process.py", "run"},
    {"/multiprocessing/process.py", "start"},
    {"/multiprocessing/spawn.py", ""},
    {"/concurrent/futures/thread.py", "_worker"},
    {"/concurrent/futures/thread.py", "run"},
};

bool IsFileOfImportlib(std::string_view file) {
  return file.starts_with("<frozen importlib.") || file.ends_with("/importlib/__init__.py") ||
         file.ends_with("/importlib/_bootstrap.py") || file.ends_with("/importlib/_bootstrap_external.py");
}

bool IsInstalled(std::string_view file) {
  // The last ones have code that PyTorch and TensorFlow generate.
  constexpr std::string_view kFolders[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                           "/lib64/python3",  "/torchinductor_", "/__autograph_generated_file"};
  return std::ranges::any_of(kFolders,
                             [&](std::string_view folder) { return file.find(folder) != std::string_view::npos; });
}

// Code that a library makes and executes has no file: `<attrs generated init A>`, `<eval_with_key>.87`. A program's
// text has, in `python -c`, interactive use, notebooks and doctests, one of a few names; so have functions that
// cloudpickle has sent to another process (Ray, Dask, joblib, vectorized environments).
bool IsGenerated(std::string_view file) {
  constexpr std::string_view kOfProgram[] = {"<string>",       "<stdin>",   "<input>",      "<console>",
                                             "<ipython-input", "<timed ",   "<timeit-src>", "<magic-timeit>",
                                             "<pyshell#",      "<command-", "<doctest ",    "<dynamic-code>"};
  return file.starts_with('<') &&
         std::ranges::none_of(kOfProgram, [&](std::string_view known) { return file.starts_with(known); });
}

// `_worker`, `Thread._bootstrap`, but not `my_run`.
bool IsNamed(std::string_view name, std::string_view last) {
  if (!name.ends_with(last)) return false;
  return name.size() == last.size() || name[name.size() - last.size() - 1] == '.';
}

// Functions that import a module: at least one of them is on the stack of each import.
bool Imports(std::string_view name) {
  constexpr std::string_view kNames[] = {"_find_and_load", "_find_and_load_unlocked",
                                         "_gcd_import",    "_handle_fromlist",
                                         "_load",          "_load_unlocked",
                                         "_exec",          "exec_module",
                                         "create_module",  "load_module",
                                         "reload",         "import_module"};
  return std::ranges::any_of(kNames, [&](std::string_view known) { return IsNamed(name, known); });
}

}  // namespace

bool BeginsWorker(std::string_view file, std::string_view name) {
  return (file.ends_with("/multiprocessing/process.py") || file.ends_with("/multiprocess/process.py")) &&
         IsNamed(name, "_bootstrap");
}

PythonOrigin PythonOriginOf(std::string_view file, std::string_view name) {
  const bool frozen = file.starts_with("<frozen ");
  if (!frozen && IsGenerated(file)) return PythonOrigin::kLibrary;
  if (!frozen && !IsInstalled(file)) return PythonOrigin::kProgram;
  if (IsFileOfImportlib(file)) return Imports(name) ? PythonOrigin::kImport : PythonOrigin::kImportTool;
  for (const StarterRow& row : kStarters) {
    if (file.ends_with(row.file) && (row.name.empty() || IsNamed(name, row.name))) return PythonOrigin::kStarter;
  }
  return PythonOrigin::kLibrary;
}

}  // namespace tbprof
