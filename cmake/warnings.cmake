# SPDX-License-Identifier: Apache-2.0
add_library(tbprof_warnings INTERFACE)
target_compile_options(tbprof_warnings INTERFACE -Wall -Wextra -Wshadow -Wno-unused-parameter -Wpointer-arith -Wcast-qual -Werror=switch)
# GCC 12 reports texts that are assigned to a std::string in inlined code (its bugs 105329 and 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tbprof_warnings INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
endif()

add_library(tbprof_sanitize INTERFACE)
if(TBPROF_SANITIZE)
  target_compile_options(tbprof_sanitize INTERFACE -fsanitize=${TBPROF_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tbprof_sanitize INTERFACE -fsanitize=${TBPROF_SANITIZE})
endif()
