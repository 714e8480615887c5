# SPDX-License-Identifier: Apache-2.0
# Static archives wherever the distribution has them, so that one file runs on another machine.
if(TBPROF_BUILD_LAUNCHER)
  find_package(Threads REQUIRED)
  # Debian's CMake package of Abseil names the shared libraries; the archives lie beside them.
  find_library(TBPROF_ABSL_BASE NAMES libabsl_base.a REQUIRED)
  get_filename_component(TBPROF_ABSL_DIRECTORY ${TBPROF_ABSL_BASE} DIRECTORY)
  file(GLOB TBPROF_ABSL_ARCHIVES ${TBPROF_ABSL_DIRECTORY}/libabsl_*.a)
  list(FILTER TBPROF_ABSL_ARCHIVES EXCLUDE REGEX "flags|test|mock")
  find_path(TBPROF_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
  find_path(TBPROF_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  find_path(TBPROF_BOOST_INCLUDE boost/math/distributions/non_central_t.hpp REQUIRED)
  add_library(tbprof_dependencies INTERFACE)
  foreach(archive libprotobuf libunwind-x86_64 libdw libelf libz liblzma libbz2)
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
    -Wl,--start-group ${TBPROF_ABSL_ARCHIVES} -Wl,--end-group
    ${TBPROF_ARCHIVES} Threads::Threads ${CMAKE_DL_LIBS})
  # gRPC without its TLS, for the launcher alone; TLS is put before it (launcher/service/tls.h).
  add_library(tbprof_grpc INTERFACE)
  foreach(archive libgrpc++_unsecure libgrpc_unsecure libgpr libupb libre2 libcares libaddress_sorting libssl libcrypto)
    string(MAKE_C_IDENTIFIER "TBPROF_${archive}" variable)
    find_library(${variable} NAMES ${archive}.a REQUIRED)
    list(APPEND TBPROF_GRPC_ARCHIVES ${${variable}})
  endforeach()
  target_link_libraries(tbprof_grpc INTERFACE ${TBPROF_GRPC_ARCHIVES} tbprof_dependencies)
  # Debian's libunwind-<arch>.a is not position-independent, and its libunwind.a, which would be, has no remote unwinding.
  target_link_options(tbprof_dependencies INTERFACE -no-pie)
endif()
