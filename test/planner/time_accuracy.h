// File: test/planner/time_accuracy.h
//
// How well the planner predicts step times, and how well it ranks plans: gates G6 to G8 and G18
// of the reference.
//
//   TimeReport report = MeasureTime(file);
//   FitTimeTable(file)      // what time_constants.cc holds, computed again from the file's rows
//
// A row is predicted with the entry of time_constants.cc for its family and GPU; the rows that an
// entry was fitted on are counted apart. Thread-safety: pure. Cost: about a second for 3,000 rows.
// For tests and benchmarks only.
#pragma once

#include <string>
#include <vector>

#include "planner/time_constants.h"
#include "test/planner/accuracy.h"
#include "test/planner/measured_file.h"

namespace asterism::planner {

struct TimeComparison {
  std::string id;
  std::string entry;
  double predicted_seconds = 0;
  double measured_seconds = 0;
  bool calibration = false;
  double error() const { return predicted_seconds / measured_seconds - 1; }
};

struct TimeReport {
  std::vector<AccuracyFigure> figures;
  std::vector<TimeComparison> rows;  // in the order of the file
};

TimeReport MeasureTime(const MeasuredFile& file);

// Markdown: the rows by entry. Entries of more than kTimeRowsShown rows only have their figures.
inline constexpr size_t kTimeRowsShown = 200;
std::string TimePage(const TimeReport& report);

struct FittedEntry {
  std::string name;
  TimeConstants constants;
};
// By name. Empty when the file has no calibration rows.
std::vector<FittedEntry> FitTimeTable(const MeasuredFile& file);

}  // namespace asterism::planner
