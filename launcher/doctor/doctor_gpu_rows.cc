// SPDX-License-Identifier: Apache-2.0
//
// The rows about NVIDIA's driver, the CUDA runtime and CUPTI. A machine without a GPU passes.
#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/doctor/doctor_rows.h"
#include "launcher/target/libraries.h"
#include "wire/gpu_bridge.h"

namespace tbprof {
namespace {

using Result = std::optional<Finding>;

// `13.0.2 (/usr/local/cuda)`; empty: none.
std::string Toolkit(const Environment& environment) {
  std::string home(Lookup(environment, "CUDA_HOME").value_or(Lookup(environment, "CUDA_PATH").value_or("")));
  if (home.empty()) home = "/usr/local/cuda";
  if (access(StrCat(home, "/bin/nvcc").c_str(), X_OK) != 0) return "";
  const auto versions = nlohmann::json::parse(ReadText(StrCat(home, "/version.json")), nullptr, false);
  if (versions.is_object() && versions.contains("cuda") && versions["cuda"].is_object()) {
    const auto version = versions["cuda"].find("version");
    if (version != versions["cuda"].end() && version->is_string()) {
      return StrCat(version->get<std::string>(), " (", home, ")");
    }
  }
  const std::unique_ptr<char, decltype(&free)> real(realpath(home.c_str(), nullptr), &free);
  const std::string_view name = real == nullptr ? std::string_view() : BaseName(real.get());
  return StrCat(name.starts_with("cuda-") ? name.substr(5) : "of unknown version", " (", home, ")");
}

// Explains a version that was not read from the library itself.
const char* ByNames(bool read) { return read ? "; by its name, not loaded" : ""; }

}  // namespace

Result CheckDriver(const DoctorContext& context) {
  const DriverAnswer answer = AnswerOf(context.gpu->Wait());
  if (answer.works) return Pass(answer.found);
  if (answer.absent) return Pass(StrCat("no GPU to record: ", answer.found));
  return Warn(answer.found, answer.fix);
}

Result CheckCuda(const DoctorContext& context) {
  const GpuFindings& findings = context.gpu->Wait();
  const std::string toolkit = Toolkit(context.environment);
  const std::string beside = toolkit.empty() ? "" : StrCat("; toolkit ", toolkit);
  if (findings.runtime.empty()) return Pass(StrCat("no CUDA runtime found; programs may bring one", beside));
  const bool read = !findings.runtime_read.empty();
  const std::string version = read                           ? findings.runtime_read
                              : findings.runtime_version > 0 ? CudaVersionText(findings.runtime_version)
                                                             : "of unknown version";
  const std::string found = StrCat("runtime ", version, " (", findings.runtime, ByNames(read), ")", beside);
  if (findings.driver_version > 0 && findings.runtime_version / 1000 > findings.driver_version / 1000) {
    return Warn(StrCat(found, ": newer than the driver, of CUDA ", CudaVersionText(findings.driver_version)),
                "programs with it do not start on this driver: a newer driver, or an older runtime");
  }
  return Pass(found);
}

Result CheckCupti(const DoctorContext& context) {
  const absl::StatusOr<Libraries> libraries = FindLibraries(context.environment);
  if (libraries.ok() && libraries->cupti.empty()) {
    return Fail(StrCat(libraries->no_cupti, ": no GPU can be recorded"), "install tbprof as a whole");
  }
  const GpuFindings& findings = context.gpu->Wait();
  if (!findings.withheld.empty()) return Warn("not looked for: the driver was not asked", "see the row `driver`");
  const bool no_driver = !findings.driver_error.empty();
  if (findings.cupti.empty()) {
    if (no_driver) return Pass("not looked for: without a driver none is needed");
    if (!findings.failed.empty()) return Warn(StrCat("not looked for: ", findings.failed), "see the row `driver`");
    std::string found = "no CUPTI that suits the driver";
    for (size_t i = 0; i < findings.tried.size(); ++i) StrAppend(&found, i == 0 ? "; tried " : ", ", findings.tried[i]);
    return Warn(found,
                "pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for CUDA 12), or CUDA_HOME of the toolkit");
  }
  const bool read = !findings.cupti_read.empty();
  const int version = read ? findings.cupti_read_version : CudaVersionOfCupti(findings.cupti_version);
  const std::string shown =
      read ? findings.cupti_read : StrCat(CudaVersionText(version), findings.cupti_version < 10'000 ? " or newer" : "");
  const std::string found = StrCat("CUPTI of CUDA ", shown, " (", findings.cupti, ByNames(read), ")");
  const int driver = findings.driver_version;
  if (driver > 0 && version > driver) {
    return Warn(StrCat(found, ": newer than the driver, of CUDA ", CudaVersionText(driver), ", and refused by it"),
                "the CUPTI of the driver's CUDA, or a newer driver");
  }
  if (driver > 0 && version / 1000 < driver / 1000) {
    return Warn(StrCat(found, ": older than the driver, of CUDA ", CudaVersionText(driver)),
                "the CUPTI of the driver's CUDA knows more kinds of work and newer devices");
  }
  return Pass(StrCat(found,
                     "; while a profiler of the program's own uses it, tbprof records no GPU activity "
                     "(after a run, `tbprof check` names its call and the cause)"));
}

}  // namespace tbprof
