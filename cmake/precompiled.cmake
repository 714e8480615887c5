# SPDX-License-Identifier: Apache-2.0
#
# Headers that most files of a target include, compiled once: reading them is half of the time that a file takes. Without
# effect with a compiler launcher: ccache would no longer keep the objects, and a file that uses such a header without
# including it is found there.
get_filename_component(TBPROF_TOP ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
set(TBPROF_PRECOMPILED_HEADERS <algorithm> <cmath> <cstdint> <functional> <map> <optional> <set> <string> <string_view>
  <tuple> <utility> <vector> <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/str_format.h>
  <nlohmann/json.hpp>)

function(tbprof_precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE ${TBPROF_PRECOMPILED_HEADERS})
  endif()
endfunction()

# tbprof_unity(target file...): compiles the files of a folder whose names begin with the same letter as one file: what their
# headers and templates take is then paid once, which halves the time of a build. Such files must not use one name for
# two things. The files that are given are compiled alone. Also without effect with a compiler launcher, where a change
# should cost one file.
function(tbprof_unity target)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${folder})
    file(RELATIVE_PATH name ${TBPROF_TOP} ${path})
    string(REGEX REPLACE "([^/])[^/]*$" "\\1" group ${name})
    string(MAKE_C_IDENTIFIER ${group} group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    if(name IN_LIST ARGN)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
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
