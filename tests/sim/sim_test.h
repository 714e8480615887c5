// SPDX-License-Identifier: Apache-2.0
//
// Runs subjects on the simulated libraries, alone or with the collector injected, and reads what they and it report.
//
//   Outcome train = RunSubject("train", {"10"}, {.collect = true});
//   EXPECT_EQ(train.collected["kernels"], train.facts["kernels"]);
#ifndef TBPROF_TESTS_SIM_SIM_TEST_H_
#define TBPROF_TESTS_SIM_SIM_TEST_H_

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tbprof::sim {

// Numbers by name; a name that is missing is -1, so that it equals nothing.
class Facts {
 public:
  long long operator[](const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? -1 : found->second;
  }
  long long OrZero(const std::string& name) const { return Has(name) ? (*this)[name] : 0; }
  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  bool empty() const { return values_.empty(); }
  void Read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const size_t equals = line.find('=');
      if (equals != std::string::npos) values_[line.substr(0, equals)] = atoll(line.c_str() + equals + 1);
    }
  }

 private:
  std::map<std::string, long long> values_;
};

struct Outcome {
  int status = -1;  // as waitpid gives it
  std::string out;  // both streams
  Facts facts;
  Facts collected;
  std::string dump;  // raw buffers
  bool Exited(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

using Environment = std::vector<std::pair<std::string, std::string>>;

struct HowToRun {
  std::string libraries = "cuda13";
  bool collect = false;
  std::string cuda_modes = {};
  std::string cupti_modes = {};
  std::string kinds = "10,1,2,5";
  std::string flags = {};
  Environment environment = {};
};

inline std::string SimDirectory() { return CUDASIM_DIR; }
inline std::string Subject(const std::string& name) { return SimDirectory() + "/subjects/" + name; }

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Outcome RunSubject(const std::string& name, const std::vector<std::string>& arguments,
                          const HowToRun& how = {}) {
  Outcome run;
  char directory[] = "/tmp/tbprof-sim-XXXXXX";
  if (mkdtemp(directory) == nullptr) return run;
  const std::string base = directory;
  Environment environment = how.environment;
  environment.emplace_back("LD_LIBRARY_PATH", SimDirectory() + "/" + how.libraries);
  environment.emplace_back("CUDASIM_CUDA", how.cuda_modes);
  environment.emplace_back("CUDASIM_CUPTI", how.cupti_modes);
  if (how.collect) {
    environment.emplace_back("CUDA_INJECTION64_PATH", SimDirectory() + "/libsim_collector.so");
    environment.emplace_back("COLLECTOR_FACTS", base + "/facts");
    environment.emplace_back("COLLECTOR_DUMP", base + "/dump");
    environment.emplace_back("COLLECTOR_KINDS", how.kinds);
    environment.emplace_back("COLLECTOR_FLAGS", how.flags);
    environment.emplace_back("COLLECTOR_CUPTI", how.libraries == "cuda12" ? "libcupti.so.12" : "libcupti.so.13");
  }
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
    if (freopen((base + "/out").c_str(), "w", stdout) == nullptr) _exit(126);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    const bool python = name.size() > 3 && name.substr(name.size() - 3) == ".py";
    std::vector<std::string> words;
    if (python) words.push_back("python3");
    words.push_back(Subject(name));
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    alarm(60);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  waitpid(child, &run.status, 0);
  run.out = ReadWhole(base + "/out");
  run.facts.Read(run.out);
  run.collected.Read(ReadWhole(base + "/facts"));
  run.dump = ReadWhole(base + "/dump");
  for (const char* file : {"/out", "/facts", "/dump"}) unlink((base + file).c_str());
  rmdir(directory);
  return run;
}

inline bool HaveSubject(const std::string& name) { return access(Subject(name).c_str(), X_OK) == 0; }

#define SIM_NEEDS_SUBJECT(name) \
  if (!tbprof::sim::HaveSubject(name)) GTEST_SKIP() << "SKIP: no nvcc, so " << name << " was not built"

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_SIM_TEST_H_
