// How well the planner predicts measured runs: gates G1 to G8, G15 and G18 of the reference.
//
//   planner_accuracy_bench [DATA.csv]           a table
//   planner_accuracy_bench --json [DATA.csv]    one JSON object a line
//   planner_accuracy_bench --page [DATA.csv]    docs/planner-accuracy.md
//   planner_accuracy_bench --fit [DATA.csv]     entries for planner/time_constants.cc
//
// DATA.csv has the columns of shared/data/planner/measured.csv, which is the default; where that is
// not there, one figure says that nothing was measured. Exit code 1: a budget was missed.

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "test/planner/accuracy.h"
#include "test/planner/measured_file.h"
#include "test/planner/time_accuracy.h"
#include "test/source_tree.h"

namespace asterism::planner {
namespace {

void PrintFigure(const AccuracyFigure& figure, bool json) {
  const std::string budget =
      figure.budget.has_value() ? fmt::format("{:g}", *figure.budget) : "null";
  if (json) {
    fmt::print(
        "{{\"name\": \"{}\", \"unit\": \"{}\", \"value\": {:.6g}, \"budget\": {}, \"ok\": {}}}\n",
        figure.name, figure.unit, figure.value, budget, figure.ok());
    return;
  }
  fmt::print("{:<78} {:>9.4g} {:<5} {:>5} {}\n", figure.name, figure.value, figure.unit,
             figure.budget.has_value() ? budget : "-", figure.ok() ? "" : "MISSED");
}

void PrintFit(const MeasuredFile& file) {
  for (const FittedEntry& entry : FitTimeTable(file)) {
    fmt::print("    {{\"{}\", {{", entry.name);
    const char* separator = "";
    for (double TimeConstants::*const each : CalibratedConstants()) {
      fmt::print("{}{:.3g}", separator, entry.constants.*each);
      separator = ", ";
    }
    fmt::print("}}}},\n");
  }
}

int MeasureFile(const std::string& path, bool json, bool page, bool fit) {
  const auto file = ReadMeasuredFile(path);
  if (!file.ok()) {
    fmt::print(stderr, "error: {}\n", std::string(file.status().message()));
    return 2;
  }
  if (fit) {
    PrintFit(**file);
    return 0;
  }
  AccuracyReport report = MeasureAccuracy(**file);
  const TimeReport time = MeasureTime(**file);
  report.figures.insert(report.figures.end(), time.figures.begin(), time.figures.end());
  if (page) {
    const std::string name = std::filesystem::path(path).filename().string();
    fmt::print("{}{}", AccuracyPage(report, fmt::format("`{}`", name)), TimePage(time));
    return 0;
  }
  bool held = true;
  for (const AccuracyFigure& figure : report.figures) {
    PrintFigure(figure, json);
    held = held && figure.ok();
  }
  return held ? 0 : 1;
}

}  // namespace
}  // namespace asterism::planner

int main(int count, char** arguments) {
  bool json = false;
  bool page = false;
  bool fit = false;
  std::string path;
  for (int index = 1; index < count; ++index) {
    const std::string_view argument = arguments[index];
    json = json || argument == "--json";
    page = page || argument == "--page";
    fit = fit || argument == "--fit";
    if (argument.substr(0, 2) != "--") {
      path = argument;
    }
  }
  if (path.empty()) {
    path = asterism::test_paths::SharedTree() + "/data/planner/measured.csv";
    if (!std::filesystem::exists(path)) {
      asterism::planner::PrintFigure(
          {"rows measured: there is no ../shared/data/planner/measured.csv", "rows", 0,
           std::nullopt},
          json);
      return 0;
    }
  }
  return asterism::planner::MeasureFile(path, json, page, fit);
}
