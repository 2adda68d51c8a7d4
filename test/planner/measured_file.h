// File: test/planner/measured_file.h
//
// Reads a file of measured training runs: the columns of shared/data/planner/measured.csv.
//
//   absl::StatusOr<std::unique_ptr<const MeasuredFile>> file = ReadMeasuredFile(path);
//   row.Text("model"), row.Number("layers")       // no value: the source does not print it
//
// The README beside that file says what the columns mean. Errors name line and column. For tests
// and benchmarks only.
//
// Thread-safety: values. Cost: one pass over the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::planner {

class MeasuredRow {
 public:
  MeasuredRow(const std::vector<std::string>* columns, std::vector<std::string> cells)
      : columns_(columns), cells_(std::move(cells)) {}

  const std::string& Text(std::string_view column) const;
  std::optional<double> Number(std::string_view column) const;
  // 0 when there is none.
  int64_t Whole(std::string_view column) const;
  bool Noted(std::string_view words) const;  // in the notes
  const std::string& id() const { return Text("id"); }
  std::string Family() const;  // the id up to the first '-'
  std::string Run() const;     // the id up to the last '/'

 private:
  const std::vector<std::string>* columns_;
  std::vector<std::string> cells_;
};

struct MeasuredFile {
  std::vector<std::string> columns;
  std::vector<MeasuredRow> rows;
};

// The rows point into the file's columns: it stays where it is.
absl::StatusOr<std::unique_ptr<const MeasuredFile>> ReadMeasuredFile(const std::string& path);
absl::StatusOr<std::unique_ptr<const MeasuredFile>> ParseMeasuredFile(std::string_view text);

}  // namespace asterism::planner
