// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/python_tags.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "writer/base/text_match.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

// A library function. `path`: the end of the file's path, or, if it ends with `/`, a directory in it. `name`: the
// function's name, or, if it ends with `.`, its class; Python 3.8 to 3.10 report no class. The stack of a worker also
// contains the library that started it, so for such libraries only names of waiting functions are listed.
struct Known {
  std::string_view path;
  std::string_view name;  // empty: any
  PythonTag tag;
};

// The first matching row counts.
constexpr Known kKnown[] = {
    {"/ray/_private/worker.py", "init", PythonTag::kImport},
    {"/ray/_private/worker.py", "shutdown", PythonTag::kImport},
    {"/pyspark/sql/session.py", "getOrCreate", PythonTag::kImport},
    {"/pyspark/sql/session.py", "stop", PythonTag::kImport},
    {"/distributed/deploy/local.py", "__init__", PythonTag::kImport},
    {"/ray/data/_internal/execution/streaming_executor_state.py", "get_output_blocking", PythonTag::kQueueGet},
    {"/queue.py", "get", PythonTag::kQueueGet},
    {"/queue.py", "put", PythonTag::kQueuePut},
    {"/queue.py", "join", PythonTag::kWorkers},
    {"/multiprocessing/queues.py", "put", PythonTag::kQueuePut},
    {"/multiprocessing/queues.py", "", PythonTag::kProcessGet},
    {"/loky/backend/queues.py", "", PythonTag::kProcessGet},
    {"/multiprocessing/pool.py", "get", PythonTag::kProcessGet},
    {"/multiprocessing/pool.py", "wait", PythonTag::kProcessGet},
    {"/multiprocessing/pool.py", "next", PythonTag::kProcessGet},
    {"/multiprocessing/pool.py", "map", PythonTag::kProcessGet},
    {"/multiprocessing/pool.py", "starmap", PythonTag::kProcessGet},
    {"/multiprocessing/connection.py", "recv", PythonTag::kProcessGet},
    {"/multiprocessing/connection.py", "recv_bytes", PythonTag::kProcessGet},
    {"/multiprocessing/connection.py", "_recv", PythonTag::kProcessGet},
    {"/multiprocessing/connection.py", "_send", PythonTag::kWorkers},
    {"/multiprocessing/connection.py", "wait", PythonTag::kProcessGet},
    {"/multiprocessing/connection.py", "poll", PythonTag::kProcessGet},
    {"/multiprocessing/managers.py", "_callmethod", PythonTag::kProcessGet},
    {"/multiprocessing/synchronize.py", "wait", PythonTag::kThread},
    {"/multiprocessing/process.py", "join", PythonTag::kChild},
    {"/torch/multiprocessing/spawn.py", "join", PythonTag::kChild},
    {"/multiprocessing/popen_fork.py", "wait", PythonTag::kChild},
    {"/concurrent/futures/", "result", PythonTag::kFuture},
    {"/concurrent/futures/", "wait", PythonTag::kFuture},
    {"/concurrent/futures/", "as_completed", PythonTag::kFuture},
    {"/concurrent/futures/", "result_iterator", PythonTag::kFuture},
    {"/threading.py", "Barrier.", PythonTag::kBarrier},
    {"/threading.py", "_wait_for_tstate_lock", PythonTag::kWorkers},
    {"/threading.py", "join", PythonTag::kWorkers},
    {"/joblib/parallel.py", "_retrieve", PythonTag::kWorkers},
    {"/joblib/parallel.py", "retrieve", PythonTag::kWorkers},
    {"/ray/_private/worker.py", "get", PythonTag::kWorkers},
    {"/ray/_private/worker.py", "get_objects", PythonTag::kWorkers},
    {"/ray/_private/worker.py", "wait", PythonTag::kWorkers},
    {"/distributed/utils.py", "sync", PythonTag::kWorkers},
    {"/threading.py", "wait", PythonTag::kThread},
    {"/threading.py", "acquire", PythonTag::kThread},
    {"/torch/utils/data/", "", PythonTag::kLoader},
    {"/tensorflow/python/data/", "", PythonTag::kLoader},
    {"/grain/_src/python/", "", PythonTag::kLoader},
    {"/keras/src/trainers/data_adapters/", "", PythonTag::kLoader},
    {"/torch/distributed/distributed_c10d.py", "", PythonTag::kCollective},
    {"/torch/nn/parallel/distributed.py", "", PythonTag::kCollective},
    {"/torch/distributed/rpc/", "", PythonTag::kNetwork},
    {"/horovod/", "", PythonTag::kCollective},
    {"/mpi4py/", "", PythonTag::kCollective},
    {"/torch/serialization.py", "load", PythonTag::kModelLoad},
    {"/torch/jit/_serialization.py", "load", PythonTag::kModelLoad},
    {"/torch/hub.py", "load", PythonTag::kModelLoad},
    {"/torch/distributed/checkpoint/", "load", PythonTag::kModelLoad},
    {"/torch/distributed/checkpoint/", "load_state_dict", PythonTag::kModelLoad},
    {"/orbax/checkpoint/", "restore", PythonTag::kModelLoad},
    {"/orbax/checkpoint/", "load_pytree", PythonTag::kModelLoad},
    {"/flax/training/checkpoints.py", "restore_checkpoint", PythonTag::kModelLoad},
    {"/safetensors/torch.py", "load_file", PythonTag::kModelLoad},
    {"/transformers/modeling_utils.py", "from_pretrained", PythonTag::kModelLoad},
    {"/transformers/models/auto/auto_factory.py", "from_pretrained", PythonTag::kModelLoad},
    {"/transformers/pipelines/__init__.py", "pipeline", PythonTag::kModelLoad},
    {"/diffusers/", "from_pretrained", PythonTag::kModelLoad},
    {"/peft/peft_model.py", "from_pretrained", PythonTag::kModelLoad},
    {"/keras/src/models/model.py", "load_weights", PythonTag::kModelLoad},
    {"/keras/src/saving/saving_api.py", "load_model", PythonTag::kModelLoad},
    {"/keras/src/saving/saving_api.py", "load_weights", PythonTag::kModelLoad},
    {"/tensorflow/python/saved_model/load.py", "load", PythonTag::kModelLoad},
    {"/tensorflow/python/checkpoint/checkpoint.py", "restore", PythonTag::kModelLoad},
    {"/tensorflow/python/checkpoint/checkpoint.py", "read", PythonTag::kModelLoad},
    {"/accelerate/accelerator.py", "load_state", PythonTag::kModelLoad},
    {"/deepspeed/runtime/engine.py", "load_checkpoint", PythonTag::kModelLoad},
    {"/stable_baselines3/common/base_class.py", "load", PythonTag::kModelLoad},
    {"/xgboost/core.py", "load_model", PythonTag::kModelLoad},
    {"/joblib/numpy_pickle.py", "load", PythonTag::kModelLoad},
    {"/onnxruntime/capi/onnxruntime_inference_collection.py", "_create_inference_session", PythonTag::kModelLoad},
    {"/llama_cpp/llama.py", "__init__", PythonTag::kModelLoad},
    {"/whisper/__init__.py", "load_model", PythonTag::kModelLoad},
    {"/torch/serialization.py", "", PythonTag::kCheckpoint},
    {"/torch/distributed/checkpoint/", "", PythonTag::kCheckpoint},
    {"/orbax/checkpoint/", "", PythonTag::kCheckpoint},
    {"/flax/training/checkpoints.py", "", PythonTag::kCheckpoint},
    {"/safetensors/torch.py", "save_file", PythonTag::kCheckpoint},
    {"/keras/src/callbacks/model_checkpoint.py", "_save_model", PythonTag::kCheckpoint},
    {"/keras/src/models/model.py", "save", PythonTag::kCheckpoint},
    {"/keras/src/models/model.py", "save_weights", PythonTag::kCheckpoint},
    {"/keras/src/saving/saving_api.py", "save_model", PythonTag::kCheckpoint},
    {"/keras/src/saving/saving_api.py", "save_weights", PythonTag::kCheckpoint},
    {"/tensorflow/python/checkpoint/checkpoint.py", "save", PythonTag::kCheckpoint},
    {"/tensorflow/python/checkpoint/checkpoint.py", "write", PythonTag::kCheckpoint},
    {"/lightning/pytorch/trainer/trainer.py", "save_checkpoint", PythonTag::kCheckpoint},
    {"/pytorch_lightning/trainer/trainer.py", "save_checkpoint", PythonTag::kCheckpoint},
    {"/lightning/fabric/fabric.py", "save", PythonTag::kCheckpoint},
    {"/transformers/trainer.py", "_save_checkpoint", PythonTag::kCheckpoint},
    {"/transformers/trainer.py", "save_model", PythonTag::kCheckpoint},
    {"/transformers/modeling_utils.py", "save_pretrained", PythonTag::kCheckpoint},
    {"/accelerate/accelerator.py", "save_state", PythonTag::kCheckpoint},
    {"/deepspeed/runtime/engine.py", "save_checkpoint", PythonTag::kCheckpoint},
    {"/diffusers/", "save_pretrained", PythonTag::kCheckpoint},
    {"/peft/peft_model.py", "save_pretrained", PythonTag::kCheckpoint},
    {"/stable_baselines3/common/", "save", PythonTag::kCheckpoint},
    {"/stable_baselines3/common/", "save_replay_buffer", PythonTag::kCheckpoint},
    {"/stable_baselines3/common/save_util.py", "save_to_pkl", PythonTag::kCheckpoint},
    {"/stable_baselines3/common/save_util.py", "save_to_zip_file", PythonTag::kCheckpoint},
    {"/xgboost/core.py", "save_model", PythonTag::kCheckpoint},
    {"/lightgbm/basic.py", "save_model", PythonTag::kCheckpoint},
    {"/subprocess.py", "", PythonTag::kChild},
    {"/logging/", "", PythonTag::kLogging},
    // What a progress bar iterates over runs below it, and is no logging.
    {"/tqdm/contrib/", "", PythonTag::kNone},
    {"/tqdm/", "__iter__", PythonTag::kNone},
    {"/tqdm/", "__anext__", PythonTag::kNone},
    {"/tqdm/", "", PythonTag::kLogging},
    {"/torch/utils/tensorboard/", "", PythonTag::kLogging},
    {"/tensorboardX/", "", PythonTag::kLogging},
    {"/wandb/", "", PythonTag::kLogging},
    {"/mlflow/tracking/", "", PythonTag::kLogging},
    {"/neptune/", "", PythonTag::kLogging},
    {"/aim/sdk/", "", PythonTag::kLogging},
    {"/loguru/", "", PythonTag::kLogging},
    {"/rich/progress.py", "track", PythonTag::kNone},
    {"/rich/", "", PythonTag::kLogging},
    {"/socket.py", "", PythonTag::kNetwork},
    {"/ssl.py", "", PythonTag::kNetwork},
    {"/http/client.py", "", PythonTag::kNetwork},
    {"/urllib/", "", PythonTag::kNetwork},
    {"/urllib3/", "", PythonTag::kNetwork},
    {"/requests/", "", PythonTag::kNetwork},
    {"/httpx/", "", PythonTag::kNetwork},
    {"/aiohttp/web.py", "", PythonTag::kServe},
    {"/aiohttp/web_app.py", "", PythonTag::kServe},
    {"/aiohttp/web_middlewares.py", "", PythonTag::kServe},
    {"/aiohttp/web_protocol.py", "", PythonTag::kServe},
    {"/aiohttp/web_runner.py", "", PythonTag::kServe},
    {"/aiohttp/web_server.py", "", PythonTag::kServe},
    {"/aiohttp/web_urldispatcher.py", "", PythonTag::kServe},
    {"/aiohttp/", "", PythonTag::kNetwork},
    {"/botocore/", "", PythonTag::kNetwork},
    {"/redis/", "", PythonTag::kNetwork},
    {"/socketserver.py", "", PythonTag::kServe},
    {"/uvicorn/", "", PythonTag::kServe},
    {"/hypercorn/", "", PythonTag::kServe},
    {"/gunicorn/", "", PythonTag::kServe},
    {"/waitress/", "", PythonTag::kServe},
    {"/cheroot/", "", PythonTag::kServe},
    {"/werkzeug/serving.py", "", PythonTag::kServe},
    {"/grpc/_server.py", "", PythonTag::kServe},
    // It runs functions of web frameworks that are not coroutines. Before Python 3.11 no class is known, and `run` is
    // also the event loop's, of clients as well.
    {"/anyio/_backends/_asyncio.py", "WorkerThread.", PythonTag::kServe},
    {"/jax/_src/compiler.py", "", PythonTag::kCompile},
    {"/jax/_src/interpreters/mlir.py", "", PythonTag::kCompile},
    {"/jax/_src/interpreters/partial_eval.py", "", PythonTag::kCompile},
    {"/jax/_src/compilation_cache.py", "", PythonTag::kCompile},
    {"/jax/_src/stages.py", "compile", PythonTag::kCompile},
    {"/jax/_src/stages.py", "lower", PythonTag::kCompile},
    {"/jax/_src/stages.py", "trace", PythonTag::kCompile},
    {"/jax/_src/pjit.py", "_infer_params", PythonTag::kCompile},
    {"/jax/_src/pjit.py", "_infer_params_internal", PythonTag::kCompile},
    {"/jax/_src/pjit.py", "_trace_for_jit", PythonTag::kCompile},
    {"/jax/_src/pjit.py", "_create_pjit_jaxpr", PythonTag::kCompile},
    {"/jax/_src/pjit.py", "_resolve_and_lower", PythonTag::kCompile},
    {"/jax/_src/interpreters/pxla.py", "compile", PythonTag::kCompile},
    {"/jax/_src/interpreters/pxla.py", "lower_sharding_computation", PythonTag::kCompile},
    {"/torch/_dynamo/convert_frame.py", "", PythonTag::kCompile},
    {"/torch/_dynamo/output_graph.py", "", PythonTag::kCompile},
    // They call what was compiled.
    {"/torch/_inductor/compile_fx.py", "run", PythonTag::kNone},
    {"/torch/_inductor/compile_fx.py", "wrapper", PythonTag::kNone},
    {"/torch/_inductor/compile_fx.py", "", PythonTag::kCompile},
    {"/triton/compiler/", "", PythonTag::kCompile},
    {"/numba/core/compiler.py", "", PythonTag::kCompile},
    {"/numba/core/dispatcher.py", "compile", PythonTag::kCompile},
    // Other functions of that file are on the stack of each call.
    {"/tensorflow/python/eager/polymorphic_function/tracing_compilation.py", "_create_concrete_function",
     PythonTag::kCompile},
};

bool IsPath(std::string_view file, std::string_view path) {
  if (path.back() == '/') return file.find(path) != std::string_view::npos;
  return file.ends_with(path);
}

bool IsName(std::string_view qualified, std::string_view name) {
  if (name.empty()) return true;
  return name.back() == '.' ? qualified.starts_with(name) : LastName(qualified) == name;
}

// Functions of the program itself that save checkpoints, recognized by name. torch.utils.checkpoint is unrelated to
// saving, and `save_embeddings` may compute what it saves.
bool SavesCheckpoint(std::string_view qualified) {
  std::string name(qualified);
  for (char& letter : name) letter = absl::ascii_tolower(static_cast<unsigned char>(letter));
  const std::string_view last = LastName(name);
  if (last == "save") return true;
  if (last.starts_with("save") && ContainsAny(name, {"model", "weights", "state", "optimizer"})) return true;
  return ContainsAny(name, {"checkpoint", "snapshot", "ckpt"}) && ContainsAny(name, {"save", "write", "dump", "store"});
}

// The program's own files may have any name: `/home/rich/train.py`, `logging/setup.py`. Frameworks are also run from
// their source trees.
bool MayBeLibrary(PythonOrigin origin, std::string_view path) {
  constexpr std::string_view kSourceTrees[] = {"/torch/", "/tensorflow/", "/jax/", "/triton/", "/numba/"};
  return origin != PythonOrigin::kProgram ||
         std::ranges::any_of(kSourceTrees, [&](std::string_view tree) { return path.starts_with(tree); });
}

// `python -c 'from multiprocessing.spawn import spawn_main; ...'` is no code of the program, which begins below it.
bool IsBootstrap(std::string_view file) {
  constexpr std::string_view kFiles[] = {"/multiprocessing/spawn.py", "/multiprocessing/forkserver.py",
                                         "/multiprocessing/resource_tracker.py"};
  return std::ranges::any_of(kFiles, [&](std::string_view end) { return file.ends_with(end); });
}

PythonTag TagOfFunction(std::string_view file, std::string_view name, PythonOrigin origin) {
  if (origin == PythonOrigin::kImport) return PythonTag::kImport;
  for (const Known& known : kKnown) {
    if (IsPath(file, known.path) && IsName(name, known.name) && MayBeLibrary(origin, known.path)) return known.tag;
  }
  return origin == PythonOrigin::kProgram && SavesCheckpoint(name) ? PythonTag::kCheckpoint : PythonTag::kNone;
}

}  // namespace

PythonTags::PythonTags(const Timeline& timeline) {
  const PythonTimeline& python = timeline.python;
  std::vector<PythonTag> of_function(python.functions.size());
  std::vector<bool> own_function(python.functions.size()), bootstrap(python.functions.size()),
      worker(python.functions.size()), text(python.functions.size()), is_module(python.functions.size()),
      calls_module(python.functions.size()), reads_socket(python.functions.size());
  for (size_t i = 0; i < python.functions.size(); ++i) {
    const std::string& path = timeline.strings.Get(python.functions[i].file);
    const std::string_view name = timeline.strings.Get(python.functions[i].name);
    const PythonOrigin origin = PythonOriginOf(path, name);
    // Hugging Face's datasets and pathos have a copy of multiprocessing.
    const std::string file = absl::StrReplaceAll(path, {{"/multiprocess/", "/multiprocessing/"}});
    of_function[i] = TagOfFunction(file, name, origin);
    own_function[i] = origin == PythonOrigin::kProgram;
    bootstrap[i] = IsBootstrap(file);
    worker[i] = BeginsWorker(file, name);
    text[i] = file == "<string>";
    is_module[i] = name == "<module>";
    // A server reads requests with these; a client of another server calls them from its own library.
    reads_socket[i] = file.ends_with("/socket.py") || file.ends_with("/ssl.py");
    calls_module[i] = file.ends_with("/torch/nn/modules/module.py");
  }
  tags_.resize(python.stacks.size());
  own_.resize(python.stacks.size());
  is_own_.resize(python.stacks.size());
  lines_.resize(python.stacks.size());
  of_worker_.resize(python.stacks.size());
  of_server_.resize(python.stacks.size());
  parents_.resize(python.stacks.size());
  std::map<std::pair<uint32_t, int32_t>, uint32_t> first;
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    const PythonStack& stack = python.stacks[i];
    const bool known = stack.function < of_function.size();
    const PythonTag tag = known ? of_function[stack.function] : PythonTag::kNone;
    // What is below the beginning of a worker is its parent's.
    const bool begins_worker = known && worker[stack.function];
    const bool has_caller = stack.parent < i && !begins_worker;
    const PythonTag outer = has_caller ? tags_[stack.parent] : PythonTag::kNone;
    const uint32_t below = has_caller ? own_[stack.parent] : 0;
    // A function of a text that a library made is part of the line that called it. The text of `python -c`, and what
    // the program itself executes, are its own.
    const bool executed = stack.parent == below && known && is_module[stack.function];
    const bool made = !executed && known && text[stack.function] && below != 0 && is_own_[below] &&
                      !text[python.stacks[below].function];
    is_own_[i] = known && own_function[stack.function] && !made;
    // The outermost tag decides: a barrier waits on a condition, and a loader on a queue. But the module that
    // DistributedDataParallel.forward calls is the program's work, and so is what a server calls.
    // A rank that saves nothing waits for the one that does.
    const bool is_of_model = outer == PythonTag::kCheckpoint || outer == PythonTag::kModelLoad;
    const bool waits_for_ranks = is_of_model && (tag == PythonTag::kCollective || tag == PythonTag::kBarrier);
    const bool calls_model = known && calls_module[stack.function];
    // A server's idle threads wait for requests in queues and conditions.
    const bool is_idle = tag == PythonTag::kThread || tag == PythonTag::kQueueGet || tag == PythonTag::kQueuePut;
    const bool calls_library = known && tag != PythonTag::kNone && !is_idle && !reads_socket[stack.function];
    const bool leaves = waits_for_ranks || (outer == PythonTag::kCollective && (is_own_[i] || calls_model)) ||
                        (outer == PythonTag::kServe && (is_own_[i] || calls_library));
    tags_[i] = outer != PythonTag::kNone && !leaves ? outer : tag;
    lines_[i] = first.try_emplace({stack.function, stack.line}, i).first->second;
    parents_[i] = has_caller ? stack.parent : 0;
    const bool begins = known && bootstrap[stack.function] && below != 0 && text[python.stacks[below].function];
    of_worker_[i] = (known && worker[stack.function]) || (stack.parent < i && of_worker_[stack.parent]);
    const bool is_called = has_caller && of_server_[stack.parent];
    of_server_[i] = tag == PythonTag::kServe || (is_called && tag != PythonTag::kImport);
    own_[i] = is_own_[i] || begins || below == 0 || !is_own_[below] ? i : below;
  }
}

uint32_t PythonTags::OwnCallerOf(uint32_t frame) const {
  if (frame >= parents_.size() || parents_[frame] == 0) return 0;
  const uint32_t caller = own_[parents_[frame]];
  return is_own_[caller] ? caller : 0;
}

}  // namespace tbprof
