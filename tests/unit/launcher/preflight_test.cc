// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/preflight.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tbprof {
namespace {

using Words = std::vector<std::string>;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// A 64-bit ELF file for this machine, composed of parts.
struct FakeElf {
  std::string interpreter = ReadElf("/proc/self/exe").interpreter;
  Words needed = {"libc.so.6"};
  std::string soname = {};
  Words symbols = {};         // defined functions of .symtab
  Words undefined = {};       // undefined ones
  Words empty_sections = {};  // names

  std::string Bytes() const {
    Elf64_Ehdr own = {};
    std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char*>(&own), sizeof(own));
    Elf64_Ehdr header = {};
    memcpy(header.e_ident, own.e_ident, EI_NIDENT);
    header.e_type = ET_DYN;
    header.e_machine = own.e_machine;
    header.e_version = 1;
    header.e_ehsize = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);

    std::string strings(1, '\0');
    auto add = [&](const std::string& text) {
      const size_t at = strings.size();
      strings += text + '\0';
      return at;
    };
    std::vector<Elf64_Dyn> dynamic;
    for (const std::string& name : needed) dynamic.push_back({DT_NEEDED, {add(name)}});
    if (!soname.empty()) dynamic.push_back({DT_SONAME, {add(soname)}});
    std::vector<Elf64_Sym> table(1);
    auto symbol = [&](const std::string& name, uint16_t section) {
      Elf64_Sym entry = {};
      entry.st_name = static_cast<uint32_t>(add(name));
      entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
      entry.st_shndx = section;
      table.push_back(entry);
    };
    for (const std::string& name : symbols) symbol(name, 1);
    for (const std::string& name : undefined) symbol(name, SHN_UNDEF);

    std::vector<Elf64_Phdr> segments;
    const size_t segment_count = 1 + (interpreter.empty() ? 0 : 1) + (dynamic.empty() ? 0 : 1);
    size_t at = sizeof(header) + segment_count * sizeof(Elf64_Phdr);
    const size_t interpreter_at = at;
    at += interpreter.size() + 1;
    at = (at + 7) & ~size_t{7};
    const size_t dynamic_at = at;
    at += (dynamic.size() + 2) * sizeof(Elf64_Dyn);
    const size_t table_at = at;
    at += table.size() * sizeof(Elf64_Sym);

    std::vector<Elf64_Shdr> sections(3);
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    for (const std::string& name : empty_sections) {
      Elf64_Shdr section = {};
      section.sh_type = SHT_PROGBITS;
      section.sh_name = static_cast<uint32_t>(add(name));
      sections.push_back(section);
    }
    const size_t strings_at = at;
    at += strings.size();
    at = (at + 7) & ~size_t{7};
    sections[1].sh_offset = table_at;
    sections[1].sh_size = table.size() * sizeof(Elf64_Sym);
    sections[2].sh_offset = strings_at;
    sections[2].sh_size = strings.size();
    header.e_phoff = sizeof(header);
    header.e_phnum = static_cast<uint16_t>(segment_count);
    header.e_shoff = at;
    header.e_shnum = static_cast<uint16_t>(sections.size());
    header.e_shstrndx = 2;
    at += sections.size() * sizeof(Elf64_Shdr);

    Elf64_Phdr load = {};
    load.p_type = PT_LOAD;
    load.p_filesz = load.p_memsz = at;
    load.p_vaddr = 0x1000;
    segments.push_back(load);
    if (!interpreter.empty()) {
      Elf64_Phdr segment = {};
      segment.p_type = PT_INTERP;
      segment.p_offset = interpreter_at;
      segment.p_filesz = interpreter.size() + 1;
      segments.push_back(segment);
    }
    if (!dynamic.empty()) {
      dynamic.push_back({DT_STRTAB, {0x1000 + strings_at}});
      dynamic.push_back({DT_NULL, {0}});
      Elf64_Phdr segment = {};
      segment.p_type = PT_DYNAMIC;
      segment.p_offset = dynamic_at;
      segment.p_filesz = dynamic.size() * sizeof(Elf64_Dyn);
      segments.push_back(segment);
    }
    std::string bytes(at, '\0');
    auto put = [&](size_t where, const void* data, size_t size) {
      if (size > 0) memcpy(bytes.data() + where, data, size);
    };
    put(0, &header, sizeof(header));
    put(header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr));
    put(interpreter_at, interpreter.c_str(), interpreter.size() + 1);
    put(dynamic_at, dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
    put(table_at, table.data(), table.size() * sizeof(Elf64_Sym));
    put(strings_at, strings.data(), strings.size());
    put(header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
    return bytes;
  }
};

class PreflightTest : public testing::Test {
 protected:
  PreflightTest() {
    char name[] = "/tmp/tbprof-preflight-XXXXXX";
    directory_ = mkdtemp(name);
    environment_ = {"PATH=" + directory_ + "/bin:/usr/bin:/bin"};
    std::filesystem::create_directory(directory_ + "/bin");
  }
  ~PreflightTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& bytes, mode_t mode = 0755) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), mode);
    return path;
  }
  Preflight Check(const Words& command) { return CheckCommand(command, environment_); }
  std::string OnlyReason(const Preflight& preflight) {
    EXPECT_EQ(preflight.reasons.size(), 1u);
    EXPECT_EQ(preflight.exit_status, 0) << preflight.error;
    return preflight.reasons.empty() ? "" : preflight.reasons[0];
  }
  // Executes the same command by the C library. Returns its errno, or 0 if the command ran.
  int ExecvpError(const std::string& name) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      clearenv();
      for (const std::string& entry : environment_) putenv(const_cast<char*>(entry.c_str()));
      char* arguments[] = {const_cast<char*>(name.c_str()), nullptr};
      execvp(name.c_str(), arguments);
      const int error = errno;
      (void)!write(ends[1], &error, sizeof(error));
      _exit(1);
    }
    close(ends[1]);
    int error = 0;
    if (read(ends[0], &error, sizeof(error)) != sizeof(error)) error = 0;
    close(ends[0]);
    waitpid(pid, nullptr, 0);
    return error;
  }

  std::string directory_;
  Environment environment_;
};

TEST_F(PreflightTest, OrdinaryProgram_CanBePreloaded) {
  const Preflight preflight = Check({"ls", "-l"});
  EXPECT_EQ(preflight.exit_status, 0) << preflight.error;
  EXPECT_TRUE(preflight.can_preload());
  EXPECT_TRUE(preflight.reasons.empty()) << preflight.reasons[0];
  EXPECT_EQ(preflight.path, "/usr/bin/ls");
  EXPECT_FALSE(preflight.own_allocator);
}

TEST_F(PreflightTest, Command_IsSearchedAsByExecvp) {
  const std::string program = "#!/bin/sh\nexit 0\n";
  Write("bin/plain", program);
  Write("bin/refused", program, 0644);
  Write("here", program);
  Write("noformat", "exit 0\n");
  std::filesystem::create_directory(directory_ + "/bin/folder");
  std::filesystem::create_symlink("/nonexistent", directory_ + "/bin/dangling");
  std::filesystem::create_symlink("loop", directory_ + "/bin/loop");
  std::filesystem::create_directory(directory_ + "/second");
  Write("second/refused", program);
  Write("second/folder", program);
  Write("file", "");
  std::filesystem::current_path(directory_);
  const Words names = {"plain",
                       "refused",
                       "here",
                       "folder",
                       "dangling",
                       "loop",
                       "",
                       "absent",
                       "./plain",
                       "./here",
                       "bin/plain",
                       "./absent",
                       "/",
                       ".",
                       "here/x",
                       "noformat",
                       "./noformat",
                       std::string(300, 'x'),
                       directory_ + "/here",
                       "./bin/refused",
                       "./bin/loop"};
  for (const std::string path :
       {"/bin", "/second", "/bin:/second", "/file:/bin", "/absent:/bin:/second", "/second:/bin"}) {
    std::string elements = path;
    for (size_t at = 0; (at = elements.find('/', at)) != std::string::npos; at += directory_.size() + 1) {
      elements.insert(at, directory_);
    }
    for (const std::string tail : {"", ":", "::/usr/bin"}) {
      environment_ = {"PATH=" + elements + tail};
      for (const std::string& name : names) {
        const ResolvedCommand resolved = ResolveCommand(name, environment_);
        EXPECT_EQ(resolved.error, ExecvpError(name)) << "`" << name << "` in " << environment_[0];
        if (resolved.error == 0) {
          EXPECT_EQ(access(resolved.path.c_str(), X_OK), 0) << resolved.path;
        }
      }
    }
  }
  environment_ = {};
  EXPECT_EQ(ResolveCommand("sh", environment_).path, "/bin/sh");
  EXPECT_EQ(ResolveCommand("sh", {"PATH="}).error, ENOENT);
  EXPECT_EQ(ResolveCommand("here", {"PATH="}).path, "here");
  std::filesystem::current_path("/");
}

TEST_F(PreflightTest, CommandNotFound_Is127) {
  Preflight preflight = Check({"pyhton3", "x"});
  EXPECT_EQ(preflight.exit_status, 127);
  EXPECT_HAS(preflight.error, "cannot find `pyhton3` in PATH");
  EXPECT_EQ(Check({"./nothere"}).exit_status, 127);
  EXPECT_EQ(Check({""}).exit_status, 127);
  EXPECT_HAS(Check({"A=1", "ls"}).error, "env A=1 COMMAND");
  EXPECT_HAS(Check({"ls -l"}).error, "quoted word");
  Write("bin/my-trainer", "#!/bin/sh\n");
  EXPECT_HAS(Check({"my-trianer"}).error, "did you mean `my-trainer`?");
  EXPECT_EQ(Check({}).exit_status, kExitUsage);
}

TEST_F(PreflightTest, CommandNotExecutable_Is126) {
  EXPECT_EQ(Check({directory_}).exit_status, 126);
  EXPECT_HAS(Check({directory_}).error, "directory");
  const std::string script = Write("train.py", "print()\n", 0644);
  EXPECT_EQ(Check({script}).exit_status, 126);
  EXPECT_HAS(Check({script}).error, "python3 " + script);
  EXPECT_HAS(Check({Write("s", "#!/bin/sh\n", 0644)}).error, "chmod +x");
  EXPECT_EQ(Check({"/dev/null"}).exit_status, 126);
}

TEST_F(PreflightTest, Script_IsFollowedToItsInterpreter) {
  Preflight preflight = Check({Write("a", "#!/bin/sh -e\n")});
  EXPECT_EQ(preflight.program, "/bin/sh");
  EXPECT_TRUE(preflight.can_preload());
  const std::string inner = Write("inner", "#! /usr/bin/env sh\n");
  preflight = Check({Write("outer", "#!" + inner + "\n")});
  EXPECT_EQ(preflight.program, ResolveCommand("sh", environment_).path);
  EXPECT_EQ(Check({Write("c", "#!/usr/bin/env -S FOO=1 sh -e\n")}).program, ResolveCommand("sh", environment_).path);
  EXPECT_EQ(Check({Write("d", "echo no shebang\n")}).program, "/bin/sh");
  EXPECT_EQ(Check({Write("e", "")}).program, "/bin/sh");
  EXPECT_EQ(Check({Write("f", "#!\n")}).exit_status, 0);

  preflight = Check({Write("g", "#!/nonexistent/python\n")});
  EXPECT_EQ(preflight.exit_status, 127);
  EXPECT_HAS(preflight.error, "/nonexistent/python");
  preflight = Check({Write("h", "#!/bin/sh\r\n")});
  EXPECT_EQ(preflight.exit_status, 0);  // a CR is removed with the blanks, and the kernel reports the error
  preflight = Check({Write("i", "#!/etc/passwd\n")});
  EXPECT_EQ(preflight.exit_status, 126);

  const std::string loop = directory_ + "/loop";
  preflight = Check({Write("loop", "#!" + loop + "\n")});
  EXPECT_EQ(preflight.exit_status, 0);  // the kernel gives ELOOP; the check only ends
}

TEST_F(PreflightTest, Env_IsFollowedToItsCommand) {
  const std::string fixed = Write("bin/fixed", FakeElf{.interpreter = ""}.Bytes());
  EXPECT_EQ(Check({"env", "A=1", "-u", "B", "ls"}).program, "/usr/bin/ls");
  EXPECT_TRUE(Check({"env", "A=1", "ls"}).can_preload());
  EXPECT_EQ(Check({"env", "fixed"}).preload, Preload::kChildrenOnly);
  EXPECT_HAS(OnlyReason(Check({"env", "-i", "ls"})), "takes LD_PRELOAD away");
  EXPECT_HAS(OnlyReason(Check({"env", "-u", "LD_PRELOAD", "ls"})), "takes LD_PRELOAD away");
  EXPECT_HAS(OnlyReason(Check({"env", "LD_PRELOAD=libjemalloc.so.2", "ls"})), "takes LD_PRELOAD away");
  EXPECT_EQ(Check({"env", "nonexistent-program"}).exit_status, 0);  // env reports it
  EXPECT_EQ(Check({"env"}).exit_status, 0);
}

TEST_F(PreflightTest, StaticProgram_CannotBePreloaded) {
  const Preflight preflight = Check({Write("x", FakeElf{.interpreter = "", .needed = {}}.Bytes())});
  EXPECT_EQ(preflight.preload, Preload::kChildrenOnly);
  EXPECT_HAS(OnlyReason(preflight), "linked statically");
  // static-pie: a dynamic section, but no loader
  EXPECT_EQ(Check({Write("y", FakeElf{.interpreter = "", .needed = {"libc.so.6"}}.Bytes())}).preload,
            Preload::kChildrenOnly);
  EXPECT_HAS(OnlyReason(Check({Write("z", FakeElf{.interpreter = "", .empty_sections = {".go.buildinfo"}}.Bytes())})),
             "Go program linked statically");
}

TEST_F(PreflightTest, LoaderAsCommand_CanBePreloaded) {
  EXPECT_TRUE(Check({FakeElf().interpreter, "/bin/ls"}).can_preload());
}

TEST_F(PreflightTest, ForeignLoader_CannotBePreloaded) {
  const std::string musl = Write("ld-musl-x86_64.so.1", "");
  const Preflight preflight = Check({Write("x", FakeElf{.interpreter = musl}.Bytes())});
  EXPECT_EQ(preflight.preload, Preload::kNo);
  EXPECT_HAS(OnlyReason(preflight), "linked with musl");
  EXPECT_EQ(Check({Write("y", FakeElf{.interpreter = Write("linker64", "")}.Bytes())}).preload, Preload::kNo);
  const Preflight missing = Check({Write("z", FakeElf{.interpreter = "/nonexistent/ld-linux-x86-64.so.2"}.Bytes())});
  EXPECT_EQ(missing.exit_status, 127);
  EXPECT_HAS(missing.error, "its loader `/nonexistent/ld-linux-x86-64.so.2` does not exist");
}

TEST_F(PreflightTest, OtherClassOrMachine_CannotBePreloaded) {
  std::string bytes = FakeElf().Bytes();
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_HAS(OnlyReason(Check({Write("a", bytes)})), "32-bit");
  bytes = FakeElf().Bytes();
  bytes[EI_NIDENT + 2] ^= 0x55;
  EXPECT_HAS(OnlyReason(Check({Write("b", bytes)})), "another machine");
  bytes = FakeElf().Bytes();
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_EQ(Check({Write("c", bytes)}).preload, Preload::kNo);
}

TEST_F(PreflightTest, SanitizersAndAllocators_AreNamed) {
  EXPECT_EQ(Check({Write("a", FakeElf{.needed = {"libasan.so.8", "libc.so.6"}}.Bytes())}).sanitizer,
            "AddressSanitizer");
  const Preflight tsan = Check({Write("b", FakeElf{.symbols = {"main", "__tsan_init"}}.Bytes())});
  EXPECT_EQ(tsan.preload, Preload::kNo);
  EXPECT_HAS(OnlyReason(tsan), "ThreadSanitizer");
  EXPECT_TRUE(Check({Write("c", FakeElf{.undefined = {"malloc", "__asan_init"}}.Bytes())}).reasons.empty());
  const Preflight own = Check({Write("d", FakeElf{.symbols = {"main", "malloc", "free"}}.Bytes())});
  EXPECT_TRUE(own.can_preload());
  EXPECT_TRUE(own.own_allocator);
  EXPECT_HAS(OnlyReason(own), "allocator of its own");
  EXPECT_TRUE(Check({Write("e", FakeElf{.symbols = {"_rjem_malloc"}}.Bytes())}).own_allocator);
  const Preflight go = Check({Write("f", FakeElf{.empty_sections = {".note.go.buildid"}}.Bytes())});
  EXPECT_TRUE(go.is_go);
  EXPECT_TRUE(go.can_preload());
  const Preflight jemalloc = Check({Write("g", FakeElf{.needed = {"libjemalloc.so.2"}}.Bytes())});
  EXPECT_TRUE(jemalloc.can_preload());
  EXPECT_EQ(jemalloc.notes.size(), 1u);
}

TEST_F(PreflightTest, SetuidProgram_CannotBePreloaded) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to make a setuid file of another user";
  const std::string path = Write("x", FakeElf().Bytes());
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  const Preflight preflight = Check({path});
  EXPECT_EQ(preflight.preload, Preload::kChildrenOnly);
  EXPECT_HAS(OnlyReason(preflight), "setuid");
  ASSERT_EQ(chmod(path.c_str(), 02755), 0);
  EXPECT_HAS(OnlyReason(Check({path})), "setgid");
  ASSERT_EQ(chmod(path.c_str(), 02745), 0);  // without x for the group, the bit means a lock
  EXPECT_TRUE(Check({path}).can_preload());
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_TRUE(Check({path}).can_preload());  // already that user
}

TEST_F(PreflightTest, FileCapabilities_OtherUserThanRoot_CannotBePreloaded) {
  const std::string path = Write("x", FakeElf().Bytes());
  // VFS_CAP_REVISION_2, effective, CAP_NET_RAW
  const uint32_t capability[5] = {0x02000001, 1u << 13, 0, 0, 0};
  if (setxattr(path.c_str(), "security.capability", capability, sizeof(capability), 0) != 0) {
    GTEST_SKIP() << "cannot set file capabilities: " << strerror(errno);
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const bool root = Check({path}).can_preload();
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    const Preflight preflight = Check({path});
    _exit(root && preflight.preload == Preload::kChildrenOnly &&
                  preflight.reasons[0].find("file capabilities") != std::string::npos
              ? 0
              : 1);
  }
  int status;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_F(PreflightTest, WrapperThatMovesTheWork_HasAdvice) {
  EXPECT_HAS(WrapperAdvice({"docker", "--context", "x", "run", "image"}), "docker run … tbprof run -- COMMAND");
  EXPECT_EQ(WrapperAdvice({"docker", "ps"}), "");
  EXPECT_EQ(WrapperAdvice({"docker"}), "");
  EXPECT_HAS(WrapperAdvice({"/usr/bin/sudo", "python3", "x"}), "sudo … tbprof run -- COMMAND");
  EXPECT_HAS(WrapperAdvice({"srun", "-n2", "x"}), "srun … tbprof run");
  // Of root, su hands LD_PRELOAD on unless it begins a login.
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"su", "me", "-c", "prog -l"},
                                             {"su", "-s", "/bin/sh", "me", "-c", "prog"},
                                             {"su", "--command=prog", "me"},
                                             {"su", "-c", "-", "me"},
                                             {"su", "-cprog -l", "me"},
                                             {"runuser", "-u", "me", "--", "prog", "-l"}}) {
    EXPECT_EQ(WrapperAdvice(words).empty(), geteuid() == 0) << words[1];
  }
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"su", "-", "me", "-c", "prog"},
                                                                                     {"su", "-l", "me"},
                                                                                     {"su", "me", "--login"},
                                                                                     {"/bin/su", "-mlc", "prog", "me"},
                                                                                     {"runuser", "-l", "me"}}) {
    EXPECT_HAS(WrapperAdvice(words), "tbprof run -- COMMAND");
  }
  EXPECT_HAS(WrapperAdvice({"ssh", "host", "x"}), "another machine");
  EXPECT_HAS(WrapperAdvice({"kubectl", "exec", "pod", "--", "x"}), "in a pod");
  EXPECT_EQ(WrapperAdvice({"kubectl", "get", "pods"}), "");
  EXPECT_EQ(WrapperAdvice({"python3", "docker", "run"}), "");
  EXPECT_EQ(WrapperAdvice({}), "");
  for (const char* name : {"docker", "apptainer"})
    Write(std::string("bin/") + name, FakeElf{.interpreter = ""}.Bytes());
  EXPECT_HAS(OnlyReason(Check({"docker", "run", "x"})), "in a container");
  EXPECT_EQ(Check({"apptainer", "exec", "x"}).preload, Preload::kNo);
}

TEST_F(PreflightTest, HostileFiles_DoNotCrash) {
  const std::string whole = FakeElf{.soname = "x", .symbols = {"malloc", "main"}, .empty_sections = {".a"}}.Bytes();
  for (size_t size = 0; size <= whole.size(); size += size < 400 ? 1 : 7) {
    ReadElf(Write("cut", whole.substr(0, size)));
  }
  srand(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (int i = 1 + rand() % 8; i > 0; --i) {
      const size_t at = 16 + static_cast<size_t>(rand()) % (bytes.size() - 16);
      const char values[] = {0, 1, 7, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
      const size_t count = rand() % 3 == 0 ? 8 : 1;
      for (size_t j = at; j < std::min(at + count, bytes.size()); ++j) bytes[j] = values[rand() % 6];
    }
    const std::string path = Write("mutant", bytes);
    ReadElf(path);
    Check({path});
  }
  ReadElf("/nonexistent");
  ReadElf("/dev/zero");
  ReadElf(directory_);
}

TEST_F(PreflightTest, ManySectionsOfOneTable_AreReadOnce) {
  FakeElf elf;
  elf.symbols.assign(2000, "a_function");
  std::string bytes = elf.Bytes();
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof(header));
  Elf64_Shdr sections[3];
  memcpy(sections, bytes.data() + header.e_shoff, sizeof(sections));
  header.e_shnum = 4000;
  memcpy(bytes.data(), &header, sizeof(header));
  bytes.resize(header.e_shoff + sizeof(sections));
  for (int i = 0; i < 3997; ++i) bytes.append(reinterpret_cast<const char*>(&sections[1]), sizeof(Elf64_Shdr));
  EXPECT_TRUE(ReadElf(Write("many", bytes)).native);
}

TEST(ReadElfTest, RealFiles_AreRead) {
  const ElfFacts self = ReadElf("/proc/self/exe");
  EXPECT_TRUE(self.is_elf);
  EXPECT_TRUE(self.native);
  EXPECT_FALSE(self.malformed);
  EXPECT_FALSE(self.interpreter.empty());
  EXPECT_NE(std::find(self.needed.begin(), self.needed.end(), "libc.so.6"), self.needed.end());
  EXPECT_FALSE(ReadElf("/etc/passwd").is_elf);
}

}  // namespace
}  // namespace tbprof
