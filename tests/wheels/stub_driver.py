# SPDX-License-Identifier: Apache-2.0
"""A libcuda.so.1 that has all functions of CUDA's headers, and logs what it is asked for.

Which function cuGetProcAddress gives for a name, a version and a kind of default stream is read in cudaTypedefs.h
(PFN_<name>_v<version>[_ptsz|_ptds]) and cuda.h (#define <name> <name>_v<n>), not in tbprof's own table. No function does
anything: each notes that it was called, and with what. From version 14000 on every name has another function, as a
driver could that is newer than all we know. With STUB_REFUSES in the environment every third look-up is answered with
an error, and leaves the pointer as it was.
"""
import re
import subprocess
from pathlib import Path

NEWER = 14000
SPECIAL = ("cuInit", "cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable")

BODY = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "stub_driver.h"
#define PUBLIC __attribute__((visibility("default")))

static struct StubQuery g_queries[8192];
static int g_count;
__attribute__((used, visibility("hidden"))) struct StubCall g_stub_call;

extern const struct StubSymbol kSymbols[];
struct Entry { const char* name; int version; int per_thread; int symbol; };
extern const struct Entry kEntries[];

PUBLIC int stub_query_count(void) { return g_count; }
PUBLIC const struct StubQuery* stub_queries(void) { return g_queries; }
PUBLIC const struct StubSymbol* stub_symbol(int number) { return &kSymbols[number]; }
PUBLIC struct StubCall* stub_call(void) { return &g_stub_call; }

PUBLIC int stub_symbol_of(const char* name, int version, uint64_t flags) {
  const struct Entry* best = NULL;
  for (const struct Entry* entry = kEntries; entry->name != NULL; ++entry) {
    if (strcmp(entry->name, name) != 0 || entry->version > version || (entry->per_thread && (flags & 2) == 0)) continue;
    if (best == NULL || (entry->version >= %(newer)d && entry->version > best->version) ||
        (best->version < %(newer)d && (entry->per_thread > best->per_thread ||
         (entry->per_thread == best->per_thread && entry->version > best->version)))) {
      best = entry;
    }
  }
  return best == NULL ? -1 : best->symbol;
}

PUBLIC int stub_refuses(const char* name, int version) {
  return getenv("STUB_REFUSES") != NULL && strlen(name) > 0 && strstr(name, "GetProcAddress") == NULL &&
         (strlen(name) + (unsigned)version / 10) %% 3 == 0;
}

PUBLIC int cuInit(unsigned flags) { return 0; }
PUBLIC int cuDriverGetVersion(int* version) { *version = 13990; return 0; }
PUBLIC int cuGetExportTable(const void** table, const void* id) { return 500; }
PUBLIC int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* status) {
  if (g_count < 8192) {
    struct StubQuery* const query = &g_queries[g_count++];
    strncpy(query->name, name, sizeof(query->name) - 1);
    query->version = version;
    query->flags = flags;
  }
  if (stub_refuses(name, version)) return 500;
  const int symbol = stub_symbol_of(name, version, flags);
  *function = symbol < 0 ? NULL : kSymbols[symbol].address;
  if (status != NULL) *status = symbol < 0;
  return 0;
}
PUBLIC int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  cuGetProcAddress_v2(name, function, version, flags, NULL);
  return *function == NULL ? 500 : 0;
}

// The number of the function, and its arguments: six in registers, eight on the stack.
__asm__(
    ".text\n"
    "stub_note:\n"
    "  leaq g_stub_call(%%rip), %%r10\n"
    "  movl %%eax, (%%r10)\n"
    "  movq %%rdi, 8(%%r10)\n"
    "  movq %%rsi, 16(%%r10)\n"
    "  movq %%rdx, 24(%%r10)\n"
    "  movq %%rcx, 32(%%r10)\n"
    "  movq %%r8, 40(%%r10)\n"
    "  movq %%r9, 48(%%r10)\n"
    "  .set at, 0\n"
    "  .rept 8\n"
    "  movq 8+at(%%rsp), %%r11\n"
    "  movq %%r11, 56+at(%%r10)\n"
    "  .set at, at+8\n"
    "  .endr\n"
    "  addl $1000, %%eax\n"
    "  ret\n");
"""


def entries_of(include):
    """(name, version, suffix, number of arguments), by cudaTypedefs.h."""
    text = (Path(include) / "cudaTypedefs.h").read_text()
    found = {}
    for name, version, suffix, arguments in re.findall(
            r"typedef\s+\w+\s*\(\s*CUDAAPI\s*\*PFN_(cu\w+?)_v(\d+)(_pts?[zd]s?|_ptsz|_ptds)?\)\s*\(([^;]*)\);", text):
        count = 0 if arguments.strip() in ("", "void") else arguments.count(",") + 1
        found[(name, int(version), suffix)] = count
    return found


def symbols_of(include):
    """{(name, version, suffix): (symbol, number of arguments)}."""
    entries = entries_of(include)
    newest = {name: int(number) for name, number in re.findall(
        r"^#\s*define\s+(cu\w+)\s+\1_v(\d+)\s*$", (Path(include) / "cuda.h").read_text(), re.M)}
    versions = {}
    for name, version, suffix in entries:
        if not suffix:
            versions.setdefault(name, []).append(version)
    symbols = {}
    for name, known in versions.items():
        known.sort()
        last = max(newest.get(name, 0), len(known))
        for place, version in enumerate(known):
            number = last - (len(known) - 1 - place)
            symbols[(name, version, "")] = name if number == 1 else f"{name}_v{number}"
    for name, version, suffix in entries:
        if suffix:
            before = [v for v in versions[name] if v <= version]
            symbols[(name, version, suffix)] = symbols[(name, max(before), "")] + suffix
    return {key: (symbol, entries[key]) for key, symbol in symbols.items()}


def build(include, directory, compiler):
    """Makes directory/libcuda.so.1; returns the symbols that it has."""
    table = symbols_of(include)
    arguments = {}
    for symbol, count in table.values():
        arguments[symbol] = count
    for name in SPECIAL:
        arguments.setdefault(name, 0)
    names = sorted(arguments)
    number = {name: place for place, name in enumerate(names)}
    bases = sorted({name for name, _, _ in table})
    source = [BODY % {"newer": NEWER}]
    stubs = [name for name in names if name not in SPECIAL] + [base + "_newer" for base in bases]
    number.update({base + "_newer": len(names) + place for place, base in enumerate(bases)})
    for stub in stubs:
        source.append(f"extern void {stub}(void);\n"
                      f'__asm__(".globl {stub}\\n.type {stub}, @function\\n{stub}:\\n  movl ${number[stub]}, %eax\\n'
                      f'  jmp stub_note\\n.size {stub}, . - {stub}\\n");')
    source.append("const struct StubSymbol kSymbols[] = {")
    for name in names + [base + "_newer" for base in bases]:
        count = arguments.get(name, 14)
        source.append(f'  {{"{name}", (void*){name}, {count}, {int(name in SPECIAL)}}},')
    source.append("};\nconst struct Entry kEntries[] = {")
    for (name, version, suffix), (symbol, _) in sorted(table.items()):
        source.append(f'  {{"{name}", {version}, {int(bool(suffix))}, {number[symbol]}}},')
    for base in bases:
        source.append(f'  {{"{base}", {NEWER}, 0, {number[base + "_newer"]}}},')
    source.append("  {0, 0, 0, 0},\n};\n")
    directory = Path(directory)
    (directory / "stub_driver.c").write_text("\n".join(source))
    here = Path(__file__).resolve().parent
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", f"-I{here}", "-o",
                    str(directory / "libcuda.so.1"), str(directory / "stub_driver.c")], check=True)
    return names
