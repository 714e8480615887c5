// SPDX-License-Identifier: Apache-2.0
//
// Fits a Markdown page into a size limit: sections with rows; the least important rows are cut first.
//
// Process: launcher, for `tbprof report` and the commands that compare. Pure functions.
#ifndef TBPROF_LAUNCHER_REPORT_MARKDOWN_PAGE_H_
#define TBPROF_LAUNCHER_REPORT_MARKDOWN_PAGE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// A section, in the order of the page. Rows of the section with the lowest `importance` are cut first.
struct MarkdownPart {
  int importance;
  std::string title;
  std::string header;  // above the rows
  std::vector<std::string> rows;
  size_t cut_rows = 0;
};

// A name as a code span: no reader finds a link, HTML or the end of a cell in it. `-` for a blank name.
std::string MarkdownCode(std::string_view name, size_t most_bytes);

// Calls `page` with at most `most_rows` rows per part, and cuts further rows until the page has at most `most_bytes`.
// The page is longer only if no row is left.
std::string FitMarkdown(std::vector<MarkdownPart> parts, size_t most_rows, size_t most_bytes,
                        const std::function<std::string(const std::vector<MarkdownPart>&)>& page);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_MARKDOWN_PAGE_H_
