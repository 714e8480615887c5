// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

using Words = std::vector<std::string>;

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() {
    char name[] = "/tmp/tbprof-options-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~OptionsTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  absl::StatusOr<Options> Parse(const Words& words, const Environment& environment = {}) {
    return ParseOptions(words, environment, directory_);
  }
  Options Good(const Words& words, const Environment& environment = {}) {
    absl::StatusOr<Options> options = Parse(words, environment);
    EXPECT_TRUE(options.ok()) << options.status();
    return options.ok() ? *options : Options();
  }
  std::string Bad(const Words& words, const Environment& environment = {}) {
    absl::StatusOr<Options> options = Parse(words, environment);
    EXPECT_FALSE(options.ok());
    const std::string line = options.ok() ? "" : std::string(options.status().message());
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  // The text and source of an option.
  static OptionValue Value(const Options& options, std::string_view name) {
    for (size_t i = 0; i < options.values.size(); ++i) {
      if (OptionRows()[i].name == name) return options.values[i];
    }
    ADD_FAILURE() << name;
    return {};
  }

  std::string directory_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(OptionsTest, Command_OptionLikeWords_IsUntouched) {
  const Words command = {"prog",  "--logdir=/x", "-h", "--version", "--", "",  "a\nb", "\xff\xfe", "--run",
                         "[a,b]", "-",           "=x", "--quiet",   "{}", " ", "'",    "\\",       "--config=/none"};
  for (const Words& before : {Words{"run"}, Words{"run", "--"}, Words{"run", "--logdir", "/mine"},
                              Words{"run", "--logdir=/mine", "--quiet", "--"}}) {
    Words words = before;
    words.insert(words.end(), command.begin(), command.end());
    const Options options = Good(words);
    EXPECT_EQ(options.command, command);
    EXPECT_FALSE(options.help);
    EXPECT_EQ(options.run, "");
    EXPECT_EQ(options.logdir_named, before.size() > 2);
  }
}

TEST_F(OptionsTest, Command_BehindADoubleDash_MayLookLikeAnOption) {
  EXPECT_EQ(Good({"run", "--", "--logdir=/x"}).command, Words({"--logdir=/x"}));
  EXPECT_EQ(Good({"run", "--", "--", "x"}).command, Words({"--", "x"}));
  EXPECT_EQ(Good({"run", "-", "x"}).command, Words({"-", "x"}));
  EXPECT_EQ(Good({"run", "", "x"}).command, Words({"", "x"}));
}

TEST_F(OptionsTest, Values_SpecialCharacters_AreUnchanged) {
  for (const std::string value : {"[a,b]", "[x]", "--run", "--", "-h", "a b", "a,b", "{}", "x=y", "\xff", "#1", "%q"}) {
    EXPECT_EQ(Good({"run", "--logdir", value, "true"}).logdir, value);
    EXPECT_EQ(Good({"run", "--logdir=" + value, "true"}).logdir, value);
    EXPECT_EQ(Good({"run", "true"}, {"TBPROF_LOGDIR=" + value}).logdir, value);
  }
}

TEST_F(OptionsTest, Defaults_EqualTheFieldsOfOptions) {
  const Options fresh;
  const Options parsed = Good({"run", "true"});
  EXPECT_EQ(parsed.logdir, fresh.logdir);
  EXPECT_FALSE(parsed.logdir_named);
  EXPECT_EQ(parsed.run, fresh.run);
  EXPECT_EQ(parsed.window.kind, fresh.window.kind);
  EXPECT_EQ(parsed.window_duration, fresh.window_duration);
  EXPECT_EQ(parsed.families, fresh.families);
  EXPECT_EQ(parsed.malloc, fresh.malloc);
  EXPECT_EQ(parsed.malloc_interval, fresh.malloc_interval);
  EXPECT_EQ(parsed.wait_threshold_ns, fresh.wait_threshold_ns);
  EXPECT_EQ(parsed.max_profile_size, fresh.max_profile_size);
  EXPECT_EQ(parsed.spool_dir, fresh.spool_dir);
  EXPECT_EQ(parsed.spool_limit, fresh.spool_limit);
  EXPECT_EQ(parsed.keep_spool, fresh.keep_spool);
  EXPECT_EQ(parsed.summary_json, fresh.summary_json);
  EXPECT_EQ(parsed.summary_json_fd, fresh.summary_json_fd);
  EXPECT_EQ(parsed.follow, fresh.follow);
  EXPECT_EQ(parsed.quiet, fresh.quiet);
  EXPECT_EQ(parsed.log_file, fresh.log_file);
  EXPECT_EQ(parsed.on_error, fresh.on_error);
  EXPECT_EQ(parsed.capture_signal, fresh.capture_signal);
  EXPECT_EQ(parsed.also, fresh.also);
  EXPECT_EQ(parsed.record_argv, fresh.record_argv);
  EXPECT_EQ(parsed.strict, fresh.strict);
  EXPECT_EQ(parsed.segment_size, fresh.segment_size);
  EXPECT_EQ(parsed.values.size(), OptionRows().size());
  for (const OptionValue& value : parsed.values) {
    EXPECT_EQ(value.source, OptionSource::kDefault);
    EXPECT_EQ(value.source_name, "default");
  }
}

TEST_F(OptionsTest, Window_EachForm_IsParsed) {
  EXPECT_EQ(Good({"run", "true"}).window.kind, Window::Kind::kAuto);
  EXPECT_EQ(Good({"run", "--window=auto", "true"}).window.kind, Window::Kind::kAuto);
  EXPECT_EQ(Good({"run", "--window=all", "true"}).window.kind, Window::Kind::kAll);
  EXPECT_EQ(Good({"run", "--window=none", "true"}).window.kind, Window::Kind::kNone);
  const Window last = Good({"run", "--window=last=1m30s", "true"}).window;
  EXPECT_EQ(last.kind, Window::Kind::kLast);
  EXPECT_EQ(last.duration, absl::Seconds(90));
}

TEST_F(OptionsTest, EachValue_ReachesItsField) {
  const Options options = Good({"run",
                                "--run=r",
                                "--window=1s+500ms",
                                "--window-duration=2s",
                                "--trace=thread,lock,malloc",
                                "--malloc=sampled",
                                "--malloc-interval=1MiB",
                                "--wait-threshold=0",
                                "--max-profile-size=1GiB",
                                "--spool-dir=/s",
                                "--spool-limit=5GB",
                                "--keep-spool",
                                "--summary-json=fd:7",
                                "--follow=none",
                                "--quiet",
                                "--log-file=/l",
                                "--on-error=run",
                                "--capture-signal=USR2",
                                "--also=perfetto",
                                "--no-argv",
                                "--strict",
                                "--buffer-size=64MiB",
                                "true"});
  EXPECT_EQ(options.run, "r");
  EXPECT_EQ(options.window.kind, Window::Kind::kRange);
  EXPECT_EQ(options.window.delay, absl::Seconds(1));
  EXPECT_EQ(options.window.duration, absl::Milliseconds(500));
  EXPECT_EQ(options.window_duration, absl::Seconds(2));
  EXPECT_EQ(options.families, uint32_t{kFamilyThread | kFamilyLock | kFamilyMalloc});
  EXPECT_EQ(options.malloc_interval, 1u << 20);
  EXPECT_EQ(options.wait_threshold_ns, 0u);
  EXPECT_EQ(options.max_profile_size, 1u << 30);
  EXPECT_EQ(options.spool_dir, "/s");
  EXPECT_EQ(options.spool_limit, 5'000'000'000u);
  EXPECT_TRUE(options.keep_spool);
  EXPECT_EQ(options.summary_json, "");
  EXPECT_EQ(options.summary_json_fd, 7);
  EXPECT_EQ(options.follow, Follow::kNone);
  EXPECT_TRUE(options.quiet);
  EXPECT_EQ(options.log_file, "/l");
  EXPECT_EQ(options.on_error, OnError::kRun);
  EXPECT_EQ(options.capture_signal, SIGUSR2);
  EXPECT_EQ(options.also, Words({"perfetto"}));
  EXPECT_FALSE(options.record_argv);
  EXPECT_TRUE(options.strict);
  EXPECT_EQ(options.segment_size, 64u << 20);
}

TEST_F(OptionsTest, Precedence_FromFlagToDefault) {
  Write("tbprof.toml", "run = \"from-here\"\n");
  Write("xdg/tbprof/config.toml", "run = \"from-xdg\"\n");
  const std::string named = Write("named.toml", "run = \"from-named\"\n");
  const std::string empty = Write("empty.toml", "# nothing\n");
  const Environment xdg = {"XDG_CONFIG_HOME=" + directory_ + "/xdg"};
  Environment all = xdg;
  all.push_back("TBPROF_RUN=from-environment");
  all.push_back("TBPROF_CONFIG=" + named);

  auto expect = [&](const Words& words, const Environment& environment, const std::string& run, OptionSource source,
                    const std::string& source_name) {
    const Options options = Good(words, environment);
    EXPECT_EQ(options.run, run);
    EXPECT_EQ(SourceOf(options, "run"), source);
    EXPECT_EQ(Value(options, "run").source_name, source_name);
  };
  using enum OptionSource;
  expect({"run", "--run=from-flag", "true"}, all, "from-flag", kCommandLine, "--run");
  expect({"run", "true"}, all, "from-environment", kEnvironment, "TBPROF_RUN");
  expect({"run", "true"}, {xdg[0], "TBPROF_CONFIG=" + named}, "from-named", kConfigFile, named);
  expect({"run", "--config=named.toml", "true"}, xdg, "from-named", kConfigFile, named);
  expect({"run", "true"}, {xdg[0], "TBPROF_CONFIG=" + empty}, "from-here", kProjectFile, directory_ + "/tbprof.toml");
  expect({"run", "--config", empty, "true"}, {xdg[0], "TBPROF_CONFIG=" + named}, "from-here", kProjectFile,
         directory_ + "/tbprof.toml");
  std::filesystem::remove(directory_ + "/tbprof.toml");
  expect({"run", "true"}, xdg, "from-xdg", kConfigFile, directory_ + "/xdg/tbprof/config.toml");
  expect({"run", "true"}, {}, "", kDefault, "default");
}

TEST_F(OptionsTest, Home_WithoutXdg_IsUsed) {
  Write(".config/tbprof/config.toml", "quiet = true\n");
  EXPECT_TRUE(Good({"run", "true"}, {"HOME=" + directory_}).quiet);
  EXPECT_FALSE(Good({"run", "true"}, {"HOME=" + directory_, "XDG_CONFIG_HOME=/nonexistent"}).quiet);
}

TEST_F(OptionsTest, EmptyVariable_CountsAsUnset) {
  const Options options = Good({"run", "true"}, {"TBPROF_LOGDIR=", "TBPROF_QUIET=", "TBPROF_CONFIG="});
  EXPECT_EQ(options.logdir, "./tbprof-logs");
  EXPECT_FALSE(options.logdir_named);
}

TEST_F(OptionsTest, Switch_EachForm_IsParsed) {
  EXPECT_TRUE(Good({"run", "--quiet", "true"}).quiet);
  EXPECT_TRUE(Good({"run", "--quiet=true", "true"}).quiet);
  EXPECT_TRUE(Good({"run", "--quiet=1", "true"}).quiet);
  EXPECT_FALSE(Good({"run", "--quiet=false", "true"}, {"TBPROF_QUIET=1"}).quiet);
  EXPECT_FALSE(Good({"run", "--quiet=0", "true"}).quiet);
  EXPECT_TRUE(Good({"run", "true"}, {"TBPROF_QUIET=yes"}).quiet);
  EXPECT_FALSE(Good({"run", "true"}, {"TBPROF_QUIET=OFF"}).quiet);
  EXPECT_TRUE(Good({"run", "--no-argv=false", "true"}).record_argv);
  EXPECT_HAS(Bad({"run", "--quiet=maybe", "true"}), "--quiet");
  EXPECT_HAS(Bad({"run", "--quiet=", "true"}), "lacks a value");
}

TEST_F(OptionsTest, OptionGivenTwice_LastOneIsUsed) {
  EXPECT_EQ(Good({"run", "--run=a", "--run", "b", "true"}).run, "b");
  EXPECT_FALSE(Good({"run", "--quiet", "--quiet=false", "true"}).quiet);
}

TEST_F(OptionsTest, UnknownName_NearestIsSuggested) {
  EXPECT_HAS(Bad({"run", "--lgdir=/x", "true"}), "did you mean --logdir?");
  EXPECT_HAS(Bad({"run", "--widnow=all", "true"}), "did you mean --window?");
  EXPECT_HAS(Bad({"run", "--wait", "true"}), "did you mean --wait-threshold?");
  EXPECT_HAS(Bad({"run", "--keep_spool", "true"}), "did you mean --keep-spool?");
  EXPECT_HAS(Bad({"run", "-x", "true"}), "unknown option -x");
  EXPECT_HAS(Bad({"run", "--xyzzyxyzzy", "true"}), "tbprof run --help");
  EXPECT_HAS(Bad({"run", "--\n\x1b[31m", "true"}), "unknown option --\\n\\x1b[31m");
  EXPECT_HAS(Bad({"run", "---", "true"}), "unknown option ---");
  EXPECT_HAS(Bad({"convert", "--malloc=off", "s"}), "--malloc is no option of tbprof convert");
  // Found by the fuzzer: two bytes are not always two dashes.
  EXPECT_HAS(Bad({"convert", "-\x83log-file", "s"}), "unknown option -\\x83log-file");
  EXPECT_HAS(Bad({"-\x83"
                  "follow=x"}),
             "unknown option -\\x83"
             "follow");
  EXPECT_HAS(Bad({"run", "--trace=thread,lokc", "true"}), "did you mean lock?");
}

TEST_F(OptionsTest, InternalVariables_AreNoOptions) {
  Good({"run", "true"}, {"TBPROF_SESSION=x", "TBPROF_DISABLE=0", "TBPROF_LIBRARY_DIR=/x", "TBPROF_TEST_ANYTHING=1",
                         "TBPROF_LOG=debug", "OTHER=1", "TBPROFX=1"});
}

TEST_F(OptionsTest, KubernetesServiceLinks_AreNoOptions) {
  Good({"run", "true"}, {"TBPROF_SERVICE_HOST=10.0.0.1", "TBPROF_SERVICE_PORT=80", "TBPROF_PORT=tcp://10.0.0.1:80",
                         "TBPROF_PORT_80_TCP_ADDR=10.0.0.1"});
}

TEST_F(OptionsTest, MissingWord_IsAnError) {
  EXPECT_HAS(Bad({}), "usage: tbprof run");
  EXPECT_HAS(Bad({"run"}), "no command to run; usage: tbprof run");
  EXPECT_HAS(Bad({"run", "--"}), "no command to run");
  EXPECT_HAS(Bad({"run", "--quiet"}), "no command to run");
  EXPECT_HAS(Bad({"run", "--logdir"}), "--logdir lacks a value");
  EXPECT_HAS(Bad({"run", "--logdir=", "true"}), "lacks a value");
  EXPECT_HAS(Bad({"run", "--logdir", "", "true"}), "lacks a value");
}

TEST_F(OptionsTest, NoSubcommand_ErrorHasAHint) {
  EXPECT_HAS(Bad({"python", "train.py"}), "tbprof run -- python");
  EXPECT_HAS(Bad({"rnu", "x"}), "did you mean run?");
  EXPECT_HAS(Bad({"--logdir=/x", "python"}), "tbprof run --logdir");
  EXPECT_HAS(Bad({"--versoin"}), "did you mean --version?");
  EXPECT_HAS(Bad({"--", "x"}), "tbprof run -- COMMAND");
  EXPECT_TRUE(Good({"--version"}).version);
  EXPECT_TRUE(Good({"-V"}).version);
  EXPECT_TRUE(Good({"--help"}).help);
  EXPECT_TRUE(Good({"-h"}).help);
}

TEST_F(OptionsTest, Help_InvalidEnvironment_IsPrinted) {
  Write("tbprof.toml", "nonsense = 1\n");
  EXPECT_TRUE(Good({"run", "-h"}, {"TBPROF_NONSENSE=1"}).help);
  EXPECT_TRUE(Good({"convert", "--help"}).help);
  EXPECT_EQ(Good({"help", "run"}, {"TBPROF_NONSENSE=1"}).operands, Words({"run"}));
  EXPECT_TRUE(Good({"help", "-h"}).help);
}

TEST_F(OptionsTest, Convert_Operands_AreKept) {
  const Options options = Good({"convert", "a", "--logdir=/x", "b", "--", "--c"});
  EXPECT_EQ(options.operands, Words({"a", "b", "--c"}));
  EXPECT_TRUE(options.command.empty());
  EXPECT_EQ(options.logdir, "/x");
  EXPECT_TRUE(options.logdir_named);
}

TEST_F(OptionsTest, KillSwitch_OtherFaults_AreIgnored) {
  Write("tbprof.toml", "nonsense = 1\n");
  const Options options =
      Good({"run", "--window=rubbish", "--", "prog", "--x"}, {"TBPROF_DISABLE=1", "TBPROF_NONSENSE=1"});
  EXPECT_TRUE(options.disabled);
  EXPECT_EQ(options.command, Words({"prog", "--x"}));
  std::filesystem::remove(directory_ + "/tbprof.toml");
  EXPECT_FALSE(Good({"run", "prog"}, {"TBPROF_DISABLE=0"}).disabled);
  EXPECT_FALSE(Good({"run", "prog"}, {"TBPROF_DISABLE="}).disabled);
}

TEST_F(OptionsTest, InvalidValue_ErrorNamesOptionSourceAndForm) {
  EXPECT_HAS(Bad({"run", "--window=soon", "true"}), "--window: expected auto, all, none, last=TIME");
  EXPECT_HAS(Bad({"run", "true"}, {"TBPROF_WINDOW=soon"}), "TBPROF_WINDOW: expected auto");
  const std::string named = Write("named.toml", "window = soon\n");
  EXPECT_HAS(Bad({"run", "--config=" + named, "true"}), named + ": window: expected auto");
  for (const char* window : {"steps=5:3", "steps=3", "steps=:5", "steps=-1:5", "last=", "last=30", "last=0s",
                             "last=25h", "1+2", "1s+", "+1s", "1s+0s", "-1s+1s", "1s+inf"}) {
    EXPECT_FALSE(Parse({"run", "true"}, {std::string("TBPROF_WINDOW=") + window}).ok()) << window;
  }
  EXPECT_EQ(Good({"run", "--window=steps=3:5", "true"}).window.kind, Window::Kind::kSteps);
  EXPECT_EQ(Good({"run", "--window=steps=3:5", "true"}).window.first_step, 3);
  EXPECT_EQ(Good({"run", "--window=steps=3:5", "true"}).window.last_step, 5);
  EXPECT_EQ(Good({"run", "--window=nvtx:a;b = c", "true"}).window.kind, Window::Kind::kNvtx);
  EXPECT_EQ(Good({"run", "--window=nvtx:a;b = c", "true"}).window.range, "a;b = c");
  EXPECT_TRUE(Good({"run", "--window=cuda-profiler", "true"}).window.is_triggered());
  EXPECT_HAS(Bad({"run", "--window=nvtx:", "true"}), "nvtx:NAME with the name of a range");
  EXPECT_HAS(Bad({"run", "--window=nvtx:" + std::string(1025, 'x'), "true"}), "at most 1024 bytes");
  EXPECT_FALSE(Parse({"run", "--window=cuda-profiler:x", "true"}).ok());
  EXPECT_HAS(Bad({"run", "--run=a/b", "true"}), "--run: expected the name of one directory");
  EXPECT_HAS(Bad({"run", "--run=..", "true"}), "--run");
  EXPECT_HAS(Bad({"run", "--run=a\nb", "true"}), "`a\\nb`");
  EXPECT_HAS(Bad({"run", "--malloc=all", "true"}), "sampled, exact or off");
  EXPECT_HAS(Bad({"run", "--malloc-stamp-every=0", "true"}), "--malloc-stamp-every");
  EXPECT_HAS(Bad({"run", "--malloc-stamp-every=2x", "true"}), "--malloc-stamp-every");
  EXPECT_HAS(Bad({"run", "--malloc-interval=0", "true"}), "--malloc-interval");
  EXPECT_HAS(Bad({"run", "--buffer-size=1KiB", "true"}), "--buffer-size");
  EXPECT_HAS(Bad({"run", "--buffer-size=100GiB", "true"}), "--buffer-size");
  EXPECT_HAS(Bad({"run", "--follow=some", "true"}), "children, all or none");
  EXPECT_HAS(Bad({"run", "--capture-signal=KILL", "true"}), "USR1, USR2 or none");
  EXPECT_HAS(Bad({"run", "--on-error=pray", "true"}), "stop or run");
  EXPECT_HAS(Bad({"run", "--window-duration=11m", "true"}), "--window-duration");
  EXPECT_HAS(Bad({"run", "--trace=", "true"}), "lacks a value");
  for (const char* fd : {"fd:", "fd:-1", "fd:x", "fd:3x", "fd:99999999999"}) {
    EXPECT_HAS(Bad({"run", std::string("--summary-json=") + fd, "true"}), "fd:N");
  }
}

TEST_F(OptionsTest, TraceAndMalloc_Combinations_GiveTheFamilies) {
  EXPECT_EQ(Good({"run", "--malloc=off", "true"}).families, uint32_t{kFamilyAll & ~kFamilyMalloc});
  EXPECT_EQ(Good({"run", "--trace=lock", "true"}).malloc, MallocMode::kOff);
  const Options exact = Good({"run", "--malloc=exact", "--malloc-stamp-every=1", "true"});
  EXPECT_EQ(exact.malloc, MallocMode::kExact);
  EXPECT_EQ(exact.malloc_stamp_every, 1u);
  EXPECT_EQ(exact.families, uint32_t{kFamilyAll});
  EXPECT_EQ(Good({"run", "--trace=none", "true"}).families, 0u);
  EXPECT_EQ(Good({"run", "--trace=io, all", "true"}).families, uint32_t{kFamilyAll});
  EXPECT_FALSE(Parse({"run", "--trace=none,io", "true"}).ok());
  EXPECT_FALSE(Parse({"run", "--trace=io,,lock", "true"}).ok());
  EXPECT_EQ(FamilyNames(kFamilyAll), "all");
  EXPECT_EQ(Good({"run", "true"}).sample_rate, kDefaultSampleRate);
  EXPECT_EQ(Good({"run", "--trace=lock", "true"}).sample_rate, kDefaultSampleRate);
  EXPECT_EQ(Good({"run", "--trace=none", "true"}).sample_rate, 0u);
  EXPECT_EQ(Good({"run", "--trace=none", "--sample-rate=50", "true"}).sample_rate, 50u);
  EXPECT_EQ(FamilyNames(0), "none");
  EXPECT_EQ(FamilyNames(kFamilyThread | kFamilyIo), "thread,io");
}

TEST_F(OptionsTest, ConfigFile_EachForm_IsParsed) {
  const std::string named = Write("named.toml",
                                  "# a comment\n"
                                  "logdir = \"/data/a # b, c\"   # another\n"
                                  "trace = [\"thread\", \"lock\"]\n"
                                  "wait_threshold = '2us'\n"
                                  "quiet = true\n"
                                  "\n"
                                  "[run]\n"
                                  "run = inner\n"
                                  "[convert]\n"
                                  "run = other\n");
  const Options options = Good({"run", "--config=" + named, "true"});
  EXPECT_EQ(options.logdir, "/data/a # b, c");
  EXPECT_TRUE(options.logdir_named);
  EXPECT_TRUE(options.logdir_required);
  EXPECT_EQ(options.families, uint32_t{kFamilyThread | kFamilyLock});
  EXPECT_EQ(options.wait_threshold_ns, 2000u);
  EXPECT_TRUE(options.quiet);
  EXPECT_EQ(options.run, "inner");
  EXPECT_EQ(options.config_files, Words({named}));
  EXPECT_EQ(Good({"convert", "--config=named.toml", "s"}).run, "other");
}

TEST_F(OptionsTest, ConfigFile_Fault_IsAnError) {
  const std::string path = Write("named.toml", "logdri = \"/x\"\n");
  const Words words = {"run", "--config=" + path, "true"};
  EXPECT_HAS(Bad(words), path + ": unknown key logdri; did you mean logdir?");
  Write("named.toml", "[rnu]\nquiet = true\n");
  EXPECT_HAS(Bad(words), "unknown section [rnu]; did you mean run?");
  Write("named.toml", "config = \"/etc/other\"\n");
  EXPECT_HAS(Bad(words), "unknown key config");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_HAS(Bad(words), "not a file");
  std::filesystem::remove(path);
  EXPECT_HAS(Bad({"run", "--config=/nonexistent/x", "true"}), "no configuration file /nonexistent/x");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_HAS(Bad(words), "not a file");
}

TEST_F(OptionsTest, VariablesThatAnOuterRunHasSet_AreNoOptions) {
  Environment outer = {"TBPROF_RUN=outer", "TBPROF_SESSION_RUN=outer", "TBPROF_RANKS=0", "TBPROF_SESSION_RANKS=0",
                       "TBPROF_SESSION_HOST=" + HostName()};
  const Options options = Good({"run", "true"}, outer);
  EXPECT_EQ(options.run, "");
  EXPECT_EQ(SourceOf(options, "ranks"), OptionSource::kDefault);
  EXPECT_TRUE(options.warnings.empty());
  outer[0] = "TBPROF_RUN=mine";
  EXPECT_EQ(Good({"run", "true"}, outer).run, "mine");
  // A tbprof for each rank of the outer one's job.
  outer[0] = "TBPROF_RUN=outer";
  outer[4] += "2";
  EXPECT_EQ(Good({"run", "true"}, outer).run, "outer");
}

TEST_F(OptionsTest, UnknownVariable_IsAWarning) {
  const Options options = Good({"run", "true"}, {"TBPROF_LOGDRI=/x", "TBPROF_\x1b[2J=1", "TBPROF_RUN=r"});
  EXPECT_EQ(options.run, "r");
  ASSERT_EQ(options.warnings.size(), 2u);
  EXPECT_HAS(options.warnings[0], "TBPROF_LOGDRI, which is no option of tbprof");
  EXPECT_HAS(options.warnings[0], "did you mean TBPROF_LOGDIR?");
  EXPECT_EQ(PrintableUtf8(options.warnings[1]), options.warnings[1]);
  Environment many;
  for (int i = 0; i < 1000; ++i) many.push_back("TBPROF_X" + std::to_string(i) + "=1");
  EXPECT_LT(Good({"run", "true"}, many).warnings.size(), 20u);
}

// ---- ./tbprof.toml

class ProjectFileTest : public OptionsTest {
 protected:
  // Options with ./tbprof.toml; *warning becomes its only warning, or stays empty.
  Options With(const std::string& text, std::string* warning = nullptr, const Words& words = {"run", "true"}) {
    Write("tbprof.toml", text);
    Options options = Good(words);
    EXPECT_EQ(options.warnings.size(), warning == nullptr ? 0u : 1u) << text;
    for (const std::string& line : options.warnings) {
      EXPECT_EQ(PrintableUtf8(line), line);
      EXPECT_LT(line.size(), 600u);
      if (warning != nullptr) *warning = line;
    }
    return options;
  }
  // The whole file is ignored, and one line names the cause.
  void ExpectIgnored(const std::string& reason) {
    const Options options = Good({"run", "true"});
    EXPECT_EQ(options.run, "") << reason;
    EXPECT_TRUE(options.config_files.empty()) << reason;
    ASSERT_EQ(options.warnings.size(), 1u) << reason;
    EXPECT_HAS(options.warnings[0], "ignored " + path_);
    EXPECT_HAS(options.warnings[0], reason);
  }
  const std::string path_ = directory_ + "/tbprof.toml";
};

TEST_F(ProjectFileTest, OwnFile_IsUsed) {
  const Options options = With("run = \"mine\"\nlogdir = \"logs/deep\"\nno-argv = true\n[convert]\nrun = \"other\"\n");
  EXPECT_EQ(options.run, "mine");
  EXPECT_EQ(options.logdir, directory_ + "/logs/deep");
  EXPECT_TRUE(options.logdir_named);
  EXPECT_FALSE(options.logdir_required);
  EXPECT_EQ(options.logdir_base, directory_);
  EXPECT_FALSE(options.record_argv);
  EXPECT_EQ(options.config_files, Words({path_}));
}

TEST_F(ProjectFileTest, FileOfAnotherUser_IsIgnored) {
  if (geteuid() != 0) GTEST_SKIP() << "another user's file needs root";
  Write("tbprof.toml", "run = \"theirs\"\n");
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  ExpectIgnored("it belongs to uid 65534");
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(directory_.c_str(), 65534, 65534), 0);
  ExpectIgnored(directory_ + " belongs to uid 65534");
}

TEST_F(ProjectFileTest, FileOthersCanWrite_IsIgnored) {
  Write("tbprof.toml", "run = \"theirs\"\n");
  for (const mode_t mode : {0666, 0664, 0646, 0660}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    ExpectIgnored("others can write to it");
  }
  chmod(path_.c_str(), 0644);
  for (const mode_t mode : {0777, 01777, 0775, 0757}) {
    ASSERT_EQ(chmod(directory_.c_str(), mode), 0);
    ExpectIgnored("others can write to " + directory_);
  }
}

TEST_F(ProjectFileTest, FileBelowADirectoryOthersCanWrite_IsIgnored) {
  const std::string inner = directory_ + "/shared/inner";
  Write("shared/inner/tbprof.toml", "run = \"theirs\"\n");
  const auto run = [&] {
    const absl::StatusOr<Options> options = ParseOptions({"run", "true"}, {}, inner);
    return options.ok() ? options->run : "error";
  };
  EXPECT_EQ(run(), "theirs");
  chmod((directory_ + "/shared").c_str(), 0777);
  EXPECT_EQ(run(), "");
  // Only the owner of an entry can replace it there, as in /tmp itself.
  chmod((directory_ + "/shared").c_str(), 01777);
  EXPECT_EQ(run(), "theirs");
}

TEST_F(ProjectFileTest, FileThatIsNotPlain_IsIgnored) {
  const std::string elsewhere = Write("elsewhere.toml", "run = \"theirs\"\n");
  std::filesystem::create_symlink(elsewhere, path_);
  ExpectIgnored("symbolic link");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectIgnored("not a file");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  ExpectIgnored("not a file");
}

// A new row is refused until it is put into one of these lists.
TEST_F(ProjectFileTest, EachOption_IsAllowedOrRefused) {
  const std::map<std::string_view, InProject> taken = {
      {"logdir", InProject::kOnlyBelow},
      {"run", InProject::kAllowed},
      {"step-marker", InProject::kAllowed},
      {"also", InProject::kAllowed},
      {"no-argv", InProject::kOnlyOn},
      {"window", InProject::kOnlyMore},
      {"malloc", InProject::kOnlyMore},
      {"torch", InProject::kOnlyMore},
      {"sample-rate", InProject::kOnlyMore},
      {"torch-shapes", InProject::kAllowed},
      {"cuda-unified-memory", InProject::kAllowed},
  };
  for (const OptionRow& row : OptionRows()) {
    const auto entry = taken.find(row.name);
    EXPECT_EQ(row.in_project, entry == taken.end() ? InProject::kNever : entry->second) << row.name;
    EXPECT_EQ(row.records_enough != nullptr, row.in_project == InProject::kOnlyMore) << row.name;
  }
  EXPECT_EQ(OptionRow().in_project, InProject::kNever);
}

TEST_F(ProjectFileTest, RefusedOptions_AreOneLine) {
  std::string warning;
  for (const std::string key : {"log-file", "summary-json", "listen", "port", "spool-dir", "quiet", "print-ranks",
                                "ranks", "trace", "cuda", "spool-limit", "spool-rate", "wait-threshold", "follow",
                                "capture-signal", "malloc-interval", "max-profile-size", "keep-spool", "on-error"}) {
    const Options options = With(key + " = \"9\"\nrun = \"mine\"\n", &warning);
    EXPECT_EQ(SourceOf(options, key), OptionSource::kDefault) << key;
    EXPECT_HAS(warning, "ignored " + key + " of " + path_);
    EXPECT_HAS(warning, "to accept: --config=./tbprof.toml");
    EXPECT_EQ(options.run, "mine") << "the rest counts";
  }
  With("window = \"none\"\ntorch = \"off\"\nranks = \"9\"\n[run]\nwindow = \"nvtx:zz\"\n", &warning);
  EXPECT_HAS(warning, "ignored ranks, torch, window of " + path_);
  EXPECT_EQ(With("python = \"/x\"\n", &warning, {"doctor"}).python, "");
  EXPECT_HAS(warning, "ignored python of");
  EXPECT_EQ(With("delay = \"1h\"\n", &warning, {"capture"}).capture_delay, absl::ZeroDuration());
  EXPECT_HAS(warning, "ignored delay of");
  With("config = \"/x\"\n", &warning);
  EXPECT_HAS(warning, "unknown key config");
}

TEST_F(ProjectFileTest, Records_LessThanTheDefault_IsRefused) {
  std::string warning;
  for (const std::string text : {"window = none", "window = \"nvtx:zz\"", "window = cuda-profiler",
                                 "window = \"1h+1ms\"", "window = \"last=100ms\"", "window = \"steps=9:9\"",
                                 "malloc = off", "torch = off", "torch = steps", "no-argv = false"}) {
    const Options options = With(text + "\n", &warning);
    EXPECT_EQ(options.window.kind, Window::Kind::kAuto) << text;
    EXPECT_EQ(options.malloc, MallocMode::kSampled) << text;
    EXPECT_EQ(options.torch, Torch::kOperations) << text;
    EXPECT_TRUE(options.record_argv) << text;
    EXPECT_HAS(warning, "ignored " + text.substr(0, text.find(' ')) + " of");
  }
  const Options more = With("window = all\nmalloc = exact\ntorch = all\ntorch-shapes = true\nno-argv = true\n");
  EXPECT_EQ(more.window.kind, Window::Kind::kAll);
  EXPECT_EQ(more.malloc, MallocMode::kExact);
  EXPECT_EQ(more.torch, Torch::kAll);
  EXPECT_TRUE(more.torch_shapes);
  EXPECT_FALSE(more.record_argv);
}

TEST_F(ProjectFileTest, Logdir_OutsideTheProject_IsRefused) {
  std::filesystem::create_directories(directory_ + "/inside");
  std::filesystem::create_directory_symlink("/etc", directory_ + "/link");
  std::filesystem::create_directory_symlink(directory_ + "/inside", directory_ + "/within");
  for (const std::string value : {"/etc", "..", "../x", "a/../../x", "a/../b", ".", "link", "link/x", "within/x",
                                  directory_.c_str(), "gs://bucket/x", "a\x1b[2Jb"}) {
    std::string warning;
    const Options options = With("logdir = \"" + value + "\"\n", &warning);
    EXPECT_EQ(options.logdir, "./tbprof-logs") << value;
    EXPECT_FALSE(options.logdir_named);
    EXPECT_HAS(warning, path_ + ": logdir: ");
  }
  for (const std::string value : {"x", "./x", "inside/x"}) {
    EXPECT_TRUE(With("logdir = \"" + value + "\"\n").logdir.starts_with(directory_ + "/")) << value;
  }
}

TEST_F(ProjectFileTest, Fault_IsAWarning) {
  std::string warning;
  EXPECT_EQ(With("window = soon\nrun = \"mine\"\n", &warning).run, "mine");
  EXPECT_HAS(warning, path_ + ": window: expected auto");
  With("windwo = \"all\"\n", &warning);
  EXPECT_HAS(warning, "unknown key windwo; did you mean window?");
  With("[rnu]\nwindow = \"all\"\n", &warning);
  EXPECT_HAS(warning, "unknown section [rnu]");
  EXPECT_FALSE(With("require-gpu = true\ncuda = \"off\"\n", &warning).require_gpu);
  EXPECT_HAS(warning, "ignored cuda, require-gpu of");
  for (const std::string key : {"rank-wait = \"10h\"", "publish-timeout = \"10h\"", "strict = true"}) {
    With(key + "\n", &warning);
    EXPECT_HAS(warning, "ignored " + key.substr(0, key.find(' ')) + " of");
  }
  EXPECT_TRUE(With("also = \"rubbish\"\n", &warning).also.empty());
  EXPECT_HAS(warning, path_ + " is not used");
  With(std::string(2000, '['), &warning);
  EXPECT_HAS(warning, "over 1000 bytes");
  With(std::string(100'000, 'x'), &warning);
  EXPECT_HAS(warning, "64 KiB");
}

TEST_F(ProjectFileTest, ManyFaults_AreFewLines) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + " = 1\n";
  Write("tbprof.toml", text + "run = \"mine\"\n");
  const Options options = Good({"run", "true"});
  EXPECT_EQ(options.run, "");
  EXPECT_LT(options.warnings.size(), 15u);
  EXPECT_HAS(options.warnings.back(), "many faults; the file is not used");
}

TEST_F(ProjectFileTest, FileNamedByOption_IsUsedWhole) {
  Write("tbprof.toml", "quiet = true\n");
  const Options options = Good({"run", "--config=tbprof.toml", "true"});
  EXPECT_TRUE(options.quiet);
  EXPECT_TRUE(options.warnings.empty());
  EXPECT_EQ(options.config_files, Words({path_}));
}

TEST_F(OptionsTest, UserFile_OfAnotherUser_IsIgnored) {
  const std::string path = Write("xdg/tbprof/config.toml", "run = \"mine\"\n");
  const Environment xdg = {"XDG_CONFIG_HOME=" + directory_ + "/xdg"};
  EXPECT_EQ(Good({"run", "true"}, xdg).run, "mine");
  // A private group may write; everybody may not.
  chmod((directory_ + "/xdg/tbprof").c_str(), 0775);
  EXPECT_EQ(Good({"run", "true"}, xdg).run, "mine");
  chmod((directory_ + "/xdg/tbprof").c_str(), 0777);
  EXPECT_EQ(Good({"run", "true"}, xdg).run, "");
  chmod((directory_ + "/xdg/tbprof").c_str(), 0755);
  // The file is a link into a directory of settings.
  std::filesystem::rename(path, directory_ + "/settings.toml");
  std::filesystem::create_symlink("../../settings.toml", path);
  EXPECT_EQ(Good({"run", "true"}, xdg).run, "mine");
  if (geteuid() != 0) return;
  ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Good({"run", "true"}, xdg).run, "");
  std::filesystem::remove(path);
  Write("xdg/tbprof/config.toml", "run = \"theirs\"\n");
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  const Options options = Good({"run", "true"}, xdg);
  EXPECT_EQ(options.run, "");
  ASSERT_EQ(options.warnings.size(), 1u);
  EXPECT_HAS(options.warnings[0], "belongs to uid 65534");
}

TEST_F(OptionsTest, ConfigFile_RandomBytes_IsAnErrorOfOneLine) {
  srand(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string_view alphabet = "[]=\"'#,. \n\nabclogdirun\x01\xff-_+";
    std::string text;
    for (int i = rand() % 60; i > 0; --i) text.push_back(alphabet[static_cast<size_t>(rand()) % alphabet.size()]);
    Write("tbprof.toml", text);
    const absl::StatusOr<Options> options = Parse({"run", "true"});
    if (!options.ok()) {
      EXPECT_EQ(std::string(options.status().message()).find('\n'), std::string::npos);
    }
  }
}

TEST(ParseDurationTest, EachForm_IsParsed) {
  EXPECT_EQ(*ParseDuration("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("1.5s"), absl::Milliseconds(1500));
  EXPECT_EQ(*ParseDuration("1us"), absl::Microseconds(1));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  for (const char* bad : {"", "5", "-1s", "+1s", "s", "1x", "inf", "1e400h", "99999999999999h", "1s ", " 1s", "nan"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(ParseSizeTest, EachForm_IsParsed) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("4096B"), 4096u);
  EXPECT_EQ(*ParseSize("64KB"), 64'000u);
  EXPECT_EQ(*ParseSize("64KiB"), 65536u);
  EXPECT_EQ(*ParseSize("64k"), 65536u);
  EXPECT_EQ(*ParseSize("64MB"), 64'000'000u);
  EXPECT_EQ(*ParseSize("1GiB"), 1u << 30);
  EXPECT_EQ(*ParseSize("2T"), uint64_t{2} << 40);
  EXPECT_EQ(*ParseSize("18446744073709551615"), ~uint64_t{0});
  for (const char* bad : {"", "-1", "+1", "1.5G", "x", "1X", "1KBB", "1 K", "18446744073709551616", "99999999999T"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
}

TEST(OptionRowsTest, EachRow_IsComplete) {
  std::set<std::string> names;
  for (const OptionRow& row : OptionRows()) {
    EXPECT_TRUE(names.insert(std::string(row.name)).second) << row.name;
    EXPECT_NE(OptionMarkdown().find("`" + EnvironmentName(row.name) + "`"), std::string::npos) << row.name;
    EXPECT_FALSE(row.help.empty());
    EXPECT_NE(row.help.back(), '.') << row.name;
    if ((row.commands & kForRun) != 0) {
      EXPECT_NE(OptionHelp("run", 100).find("--" + std::string(row.name)), std::string::npos) << row.name;
    }
    if (!row.default_text.empty()) {
      Options options;
      EXPECT_TRUE(row.set(options, row.default_text).ok()) << row.name;
    }
  }
  EXPECT_EQ(EnvironmentName("spool-dir"), "TBPROF_SPOOL_DIR");
}

TEST(OptionRowsTest, Help_EachWidth_FitsTheTerminal) {
  for (int width : {60, 80, 100}) {
    const std::string help = OptionHelp("run", width);
    for (size_t at = 0, end; (end = help.find('\n', at)) != std::string::npos; at = end + 1) {
      EXPECT_LE(end - at, static_cast<size_t>(width)) << help.substr(at, end - at);
    }
  }
}

TEST_F(OptionsTest, RunName_OutsideItsDirectory_IsRefused) {
  for (const std::string& run :
       {std::string("../x"), std::string("a/b"), std::string("/x"), std::string(".."), std::string(".hidden"),
        std::string("a\nb"), std::string("\xff"), std::string("\x7f"), std::string("a\0b", 3), std::string(300, 'x')}) {
    EXPECT_HAS(Bad({"run", "--run=" + run, "--", "true"}), "the name of one directory");
  }
  EXPECT_EQ(Good({"run", "--run=" + std::string(128, 'x'), "--", "true"}).run.size(), 128u);
  EXPECT_EQ(Good({"run", "--run=\xc3\xa9poque 3", "--", "true"}).run, "\xc3\xa9poque 3");
}

TEST_F(OptionsTest, Error_AnyInput_IsOneReadableLine) {
  for (const std::string& word : {std::string("-h=\x96\x8e"), std::string("-h=a\nb"), std::string("--logdir\xff=x"),
                                  std::string("--window=\x1b[2J"), std::string("--run=\n")}) {
    const std::string line = Bad({"run", word, "--", "true"});
    EXPECT_EQ(PrintableUtf8(line), line);
  }
  Write("tbprof.toml", "run = [\"\xff\xfe\x1b\", \n\"a\"\n");
  if (const auto options = Parse({"run", "--", "true"}); !options.ok()) {
    const std::string line(options.status().message());
    EXPECT_EQ(PrintableUtf8(line), line);
  }
}

TEST_F(OptionsTest, Explain_ShowsValueAndSource) {
  const Options options = Good({"config", "--explain"}, {"TBPROF_LOGDIR=/env"});
  const std::string text = ExplainOptions(options);
  EXPECT_NE(text.find("/env"), std::string::npos);
  EXPECT_NE(text.find("TBPROF_LOGDIR"), std::string::npos);
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), OptionRows().size());
}

TEST(NearestNameTest, NearAndFarNames_NearestIsReturned) {
  EXPECT_EQ(NearestName("windwo", {"window", "malloc"}), "window");
  EXPECT_EQ(NearestName("zzz", {"window", "malloc"}), "");
  EXPECT_EQ(NearestName("", {"window"}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), {"window"}), "");
}

}  // namespace
}  // namespace tbprof
