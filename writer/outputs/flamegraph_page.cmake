# SPDX-License-Identifier: Apache-2.0
#
# embed_page(PAGE SCRIPT OUTPUT): puts the script into the page, both of ASCII characters, and writes it as rows of raw
# string literals, for an array of std::string_view. A compiler may refuse one long literal.
function(embed_page page script output)
  file(READ ${page} text)
  file(READ ${script} inner)
  string(REPLACE "@SCRIPT@" "${inner}" text "${text}")
  set(rows "")
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 4000 part)
    string(APPEND rows "R\"tbprof(${part})tbprof\",\n")
    math(EXPR at "${at} + 4000")
  endwhile()
  # An unchanged file keeps its time.
  file(WRITE ${output}.new "${rows}")
  configure_file(${output}.new ${output} COPYONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page} ${script})
endfunction()
