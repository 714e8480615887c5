// SPDX-License-Identifier: Apache-2.0
//
// A page of Markdown that has to fit: sections with rows, of which the least important are cut first.
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

// In the order of the page. `importance`: the lowest is cut first.
struct MarkdownPart {
  int importance;
  std::string title;
  std::string header;  // above the rows
  std::vector<std::string> rows;
  size_t cut_rows = 0;
};

// A name as a code span, in which no reader sees a link, HTML or the end of a cell; `-` of a blank one.
std::string MarkdownCode(std::string_view name, size_t most_bytes);

// `page` of the parts, each with at most `most_rows`, and of rows so many that it has at most `most_bytes`. Longer only
// where no row is left.
std::string FitMarkdown(std::vector<MarkdownPart> parts, size_t most_rows, size_t most_bytes,
                        const std::function<std::string(const std::vector<MarkdownPart>&)>& page);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_MARKDOWN_PAGE_H_
