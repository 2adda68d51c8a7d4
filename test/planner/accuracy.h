// File: test/planner/accuracy.h
//
// How well the planner predicts a file of measured rows: the figures of gates G1 to G5 of the
// reference, with their budgets, and a page of tables for people.
//
//   const AccuracyReport report = MeasureAccuracy(**file);
//   for (const AccuracyFigure& figure : report.figures) ...
//
// Rows of calibration groups (IsCalibration) are counted apart: a budget is held by the other rows
// only. Figures without rows are left out, so a file of other families gives another list.
//
// Thread-safety: pure. Cost: some milliseconds for 3,000 rows. For tests and benchmarks only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "test/planner/measured_file.h"

namespace asterism::planner {

struct AccuracyFigure {
  std::string name;
  std::string unit;
  double value = 0;
  std::optional<double> budget;  // the largest that is good
  bool ok() const { return !budget.has_value() || value <= *budget; }
};

struct MemoryComparison {
  std::string id;
  std::string family;  // the family, or a part of it that is judged apart
  double predicted_bytes = 0;
  double measured_bytes = 0;
  double low_bytes = 0;
  double high_bytes = 0;
  bool calibration = false;
  double error() const { return predicted_bytes / measured_bytes - 1; }
};

struct AccuracyReport {
  std::vector<AccuracyFigure> figures;
  std::vector<MemoryComparison> memory;  // in the order of the file
  std::map<std::string, int> left_out;   // memory rows and labels: family and reason -> rows
};

AccuracyReport MeasureAccuracy(const MeasuredFile& file);

// Markdown. `source` names the file.
std::string AccuracyPage(const AccuracyReport& report, const std::string& source);

}  // namespace asterism::planner
