// File: cli/table.h
//
// Rows under titles, as kubectl prints them: columns as wide as their widest cell, three spaces
// between.
//
//   Table table({{"NAME"}, {"GPUS", Align::kRight}});
//   table.AddRow({{"llama"}, {"512", Tone::kGood}});
//   std::vector<Line> lines = table.Lines();
//
// Thread-safety: none. Cost: two passes over the cells.
#pragma once

#include <string>
#include <vector>

#include "cli/styled_text.h"

namespace asterism::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

struct Cell {
  std::string text;  // foreign: escaped here
  Tone tone = Tone::kPlain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void AddRow(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  std::vector<Line> Lines() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace asterism::cli
