// SPDX-License-Identifier: Apache-2.0
//
// The Python whose packages a command imports, found without running it.
#include "launcher/target/command_python.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/base/text.h"

namespace tbprof {
namespace {

class CommandPython : public testing::Test {
 protected:
  CommandPython() {
    std::string pattern = "/tmp/tbprof-python-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Venv("venv");
    Venv("project/.venv");
    Venv("conda/envs/train");
    Venv("other");
    Script("venv/bin/torchrun", StrCat("#!", root_, "/venv/bin/python\nimport torch\n"));
    Script("venv/bin/long", StrCat("#!/bin/sh\n'''exec' \"", root_, "/venv/bin/python3\" \"$0\" \"$@\"\n' '''\n"));
    Script("bin/by_env", "#!/usr/bin/env python3\n");
    Script("bin/shell", "#!/bin/sh\nexec python x\n");
    Script("project/train.py", "#!/usr/bin/env -S python3 -u\n");
  }
  ~CommandPython() override { std::filesystem::remove_all(root_); }

  void Venv(const std::string& name) {
    Script(name + "/bin/python", "");
    Script(name + "/bin/python3", "");
    Script(name + "/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    std::filesystem::create_directories(root_ + "/" + name + "/lib/python3.11/site-packages");
  }
  void Script(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
  }
  void Package(const std::string& venv, const std::string& name) {
    std::filesystem::create_directories(StrCat(root_, "/", venv, "/lib/python3.11/site-packages/", name, ".dist-info"));
  }
  // Below root_; `-` for none.
  std::string Of(const std::vector<std::string>& command, Environment more = {}) const {
    more.push_back(StrCat("PATH=", root_, "/venv/bin:", root_, "/bin"));
    more.push_back(StrCat("HOME=", root_));
    std::vector<std::string> words;
    for (const std::string& word : command) {
      const size_t at = word.find('@');
      words.push_back(at == std::string::npos ? word : StrCat(word.substr(0, at), root_, word.substr(at + 1)));
    }
    const std::string python = PythonOfCommand(words, more, root_ + "/project");
    if (python.empty()) return "-";
    return python.starts_with(root_) ? python.substr(root_.size() + 1) : python;
  }
  std::string root_;
};

TEST_F(CommandPython, EachKindOfCommand_InterpreterIsFound) {
  const struct {
    std::vector<std::string> command;
    std::string python;
  } cases[] = {
      {{"python", "train.py"}, "venv/bin/python"},
      {{"python3", "-m", "x"}, "venv/bin/python3"},
      {{"@/other/bin/python", "x"}, "other/bin/python"},
      {{"../other/bin/python", "x"}, "project/../other/bin/python"},
      {{"torchrun", "--nproc-per-node=2", "x.py"}, "venv/bin/python"},
      {{"long", "x"}, "venv/bin/python3"},
      {{"by_env"}, "venv/bin/python3"},
      {{"./train.py"}, "venv/bin/python3"},
      {{"env", "A=b", "python", "x"}, "venv/bin/python"},
      {{"env", "PATH=@/other/bin", "python", "x"}, "other/bin/python"},
      {{"nice", "-n", "5", "python", "x"}, "venv/bin/python"},
      {{"timeout", "5m", "torchrun", "x"}, "venv/bin/python"},
      {{"sh", "-c", "cd /x && exec python train.py"}, "venv/bin/python"},
      {{"bash", "-lc", "A=1 @/other/bin/python train.py"}, "other/bin/python"},
      {{"setpriv", "--reuid=7", "python", "x"}, "venv/bin/python"},
      {{"uv", "run", "train.py"}, "project/.venv/bin/python3"},
      {{"uv", "run", "--project", "@/other/..", "-p", "@/other/bin/python", "x"}, "other/bin/python"},
      {{"nice", "uv", "run", "python", "x"}, "project/.venv/bin/python3"},
      {{"poetry", "run", "python", "x"}, "project/.venv/bin/python3"},
      {{"conda", "run", "-p", "@/other", "python", "x"}, "other/bin/python3"},
      {{"mpirun", "-n", "2", "torchrun", "x"}, "venv/bin/python"},
      {{"ls", "-l"}, "-"},
      {{"shell"}, "-"},
      {{"no-such-program"}, "-"},
      {{"@/no/python", "x"}, "-"},
      {{}, "-"},
      {{""}, "-"},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(Of(row.command), row.python) << (row.command.empty() ? "" : row.command[0]);
  }
  EXPECT_EQ(Of({"conda", "run", "-n", "train", "python", "x"}, {StrCat("CONDA_ENVS_PATH=", root_, "/conda/envs")}),
            "conda/envs/train/bin/python3");
  EXPECT_EQ(Of({"conda", "run", "--name=train", "python"}, {StrCat("CONDA_EXE=", root_, "/conda/bin/conda")}),
            "conda/envs/train/bin/python3");
}

TEST_F(CommandPython, ScriptsInCircles_End) {
  Script("bin/a", StrCat("#!", root_, "/bin/b\n"));
  Script("bin/b", StrCat("#!", root_, "/bin/a\n"));
  EXPECT_EQ(Of({"a", "b", "a"}), "-");
  Script("bin/empty", "#!");
  EXPECT_EQ(Of({"empty"}), "-");
  EXPECT_EQ(Of({"sh", "-c", std::string(10'000, '(')}), "-");
}

TEST_F(CommandPython, PackagesOf_VirtualEnvironment_AreItsOwn) {
  const auto viewer = [&](const std::string& venv, const Environment& environment = {}) {
    return ViewerIn(PackagesOf(StrCat(root_, "/", venv, "/bin/python"), environment));
  };
  EXPECT_EQ(viewer("venv"), Viewer::kNone);
  Package("venv", "xprof-2.21.1");
  EXPECT_EQ(viewer("venv"), Viewer::kXprofAlone);
  Package("venv", "tensorboard-2.20.0");
  EXPECT_EQ(viewer("venv"), Viewer::kTensorBoard);
  EXPECT_EQ(PackagesOf(root_ + "/venv/bin/python", {}).at("xprof"), "2.21.1");
  EXPECT_EQ(viewer("other"), Viewer::kNone);
  EXPECT_EQ(viewer("other", {StrCat("PYTHONPATH=", root_, "/venv/lib/python3.11/site-packages")}),
            Viewer::kTensorBoard);
  // `python -m venv --system-site-packages`: also the packages of the Python to which the link leads.
  Package("conda", "tensorboard-2.20.0");
  Package("conda", "tensorboard_plugin_profile-2.19.0");
  Script("conda/bin/python3", "");
  std::filesystem::remove(root_ + "/other/bin/python");
  std::filesystem::create_symlink(root_ + "/conda/bin/python3", root_ + "/other/bin/python");
  EXPECT_EQ(viewer("other"), Viewer::kNone);
  Script("other/pyvenv.cfg", "include-system-site-packages = true\n");
  EXPECT_EQ(viewer("other"), Viewer::kTensorBoard);
}

}  // namespace
}  // namespace tbprof
