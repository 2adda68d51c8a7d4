#include "cli/table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace asterism::cli {
namespace {

constexpr size_t kGap = 3;

}  // namespace

void Table::AddRow(std::vector<Cell> cells) {
  CHECK_THAT(cells.size() == columns_.size(), "a row has as many cells as the table has columns");
  for (Cell& cell : cells) {
    cell.text = Escaped(cell.text);
  }
  rows_.push_back(std::move(cells));
}

std::vector<Line> Table::Lines() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) {
    widths.push_back(column.title.size());
  }
  for (const std::vector<Cell>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  std::vector<Line> lines;
  const auto add = [&](auto cell_of) {
    Line& line = lines.emplace_back();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Cell cell = cell_of(i);
      const size_t padding = widths[i] - DisplayWidth(cell.text);
      const bool right = columns_[i].align == Align::kRight;
      line.AddSpaces((i == 0 ? 0 : kGap) + (right ? padding : 0));
      line.Add(cell.text, cell.tone);
      line.AddSpaces(right ? 0 : padding);
    }
  };
  add([&](size_t i) { return Cell{columns_[i].title, Tone::kBold}; });
  for (const std::vector<Cell>& row : rows_) {
    add([&](size_t i) { return row[i]; });
  }
  return lines;
}

}  // namespace asterism::cli
