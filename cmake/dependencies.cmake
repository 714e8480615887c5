# SPDX-License-Identifier: Apache-2.0
# Static archives wherever the distribution has them, so that one file runs on another machine.
if(TBPROF_BUILD_LAUNCHER)
  find_package(Threads REQUIRED)
  find_package(absl REQUIRED)
  find_path(TBPROF_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
  find_path(TBPROF_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  add_library(tbprof_dependencies INTERFACE)
  foreach(archive libprotobuf libunwind-x86_64 libunwind libdw libelf libz liblzma libbz2)
    if(archive STREQUAL libunwind-x86_64 AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
      set(file_name libunwind-${CMAKE_SYSTEM_PROCESSOR}.a)
    else()
      set(file_name ${archive}.a)
    endif()
    string(MAKE_C_IDENTIFIER "TBPROF_${archive}" variable)
    find_library(${variable} NAMES ${file_name} REQUIRED)
    list(APPEND TBPROF_ARCHIVES ${${variable}})
  endforeach()
  target_link_libraries(tbprof_dependencies INTERFACE
    absl::status absl::statusor absl::strings absl::span absl::str_format absl::flat_hash_map absl::time
    ${TBPROF_ARCHIVES} Threads::Threads ${CMAKE_DL_LIBS})
endif()
