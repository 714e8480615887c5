# SPDX-License-Identifier: Apache-2.0
#
# Headers that most files of a target include, compiled once: reading them is half of the time that a file takes. Without
# effect with a compiler launcher: ccache would no longer keep the objects, and a file that uses such a header without
# including it is found there.
set(TBPROF_PRECOMPILED_HEADERS <algorithm> <cmath> <cstdint> <functional> <map> <optional> <set> <string> <string_view>
  <tuple> <utility> <vector> <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_format.h>
  <nlohmann/json.hpp>)

function(tbprof_precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE ${TBPROF_PRECOMPILED_HEADERS})
  endif()
endfunction()

# tbprof_precompile_tests(target group header...): all executables of a group use what the first of them compiled.
function(tbprof_precompile_tests target group)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  get_property(first GLOBAL PROPERTY tbprof_precompiled_${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY tbprof_precompiled_${group} ${target})
  endif()
endfunction()
