// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/markdown_page.h"

#include "writer/base/utf8.h"

namespace tbprof {

// A backtick would end the code span and a `|` the cell; not every reader respects a backslash before them.
std::string MarkdownCode(std::string_view name, size_t most_bytes) {
  const std::string printable = PrintableUtf8(name);
  std::string out = "`";
  for (const char c : TruncateUtf8(printable, most_bytes)) {
    if (c == '`') {
      out += '\'';
    } else if (c == '|') {
      out += "¦";
    } else {
      out += c;
    }
  }
  return out.find_first_not_of("` ") == std::string::npos ? "-" : out + "`";
}

std::string FitMarkdown(std::vector<MarkdownPart> parts, size_t most_rows, size_t most_bytes,
                        const std::function<std::string(const std::vector<MarkdownPart>&)>& page) {
  for (MarkdownPart& part : parts) {
    if (part.rows.size() <= most_rows) continue;
    part.cut_rows = part.rows.size() - most_rows;
    part.rows.resize(most_rows);
  }
  std::string text = page(parts);
  while (text.size() > most_bytes) {
    MarkdownPart* least = nullptr;
    for (MarkdownPart& part : parts) {
      if (!part.rows.empty() && (least == nullptr || part.importance < least->importance)) least = &part;
    }
    if (least == nullptr) break;
    least->rows.pop_back();
    ++least->cut_rows;
    text = page(parts);
  }
  return text;
}

}  // namespace tbprof
