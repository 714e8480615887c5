# SPDX-License-Identifier: Apache-2.0
add_library(tbprof_warnings INTERFACE)
target_compile_options(tbprof_warnings INTERFACE -Wall -Wextra -Wshadow -Wno-unused-parameter -Wpointer-arith -Wcast-qual)

add_library(tbprof_sanitize INTERFACE)
if(TBPROF_SANITIZE)
  target_compile_options(tbprof_sanitize INTERFACE -fsanitize=${TBPROF_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tbprof_sanitize INTERFACE -fsanitize=${TBPROF_SANITIZE})
endif()
