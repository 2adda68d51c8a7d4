#include "test/planner/time_accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "fmt/format.h"
#include "planner/calibrate.h"
#include "planner/time_model.h"
#include "test/planner/measured_case.h"

namespace asterism::planner {
namespace {

struct TimedRow {
  const MeasuredRow* row = nullptr;
  MeasuredCase measured;
  std::string entry;
  bool calibration = false;
};

double SecondsOf(const MeasuredCase& measured, const TimeConstants& constants) {
  return EstimateTime(measured.model, measured.plan, measured.cluster, ProfileOf(measured.runtime),
                      constants)
      .Seconds();
}

std::vector<TimedRow> TimedRows(const MeasuredFile& file) {
  std::vector<TimedRow> rows;
  for (const MeasuredRow& row : file.rows) {
    auto measured = CaseOf(row);
    if (measured.ok() && measured->measured_seconds > 0 && !measured->cluster.levels.empty()) {
      rows.push_back({&row, *std::move(measured), TimeEntryOf(row), IsTimeCalibration(row)});
    }
  }
  return rows;
}

// With the calibration rows that `takes` says.
template <typename Takes>
TimeConstants FitRows(const std::vector<TimedRow>& rows, const Takes& takes) {
  std::vector<TimePoint> points;
  for (const TimedRow& each : rows) {
    if (each.calibration && takes(each)) {
      points.push_back({&each.measured.model, &each.measured.plan, &each.measured.cluster,
                        &ProfileOf(each.measured.runtime), each.measured.measured_seconds});
    }
  }
  return CalibrateTime(points, ShippedConstants());
}

struct TimeGate {
  std::string_view family;
  std::optional<double> mean;
  std::optional<double> p95;
  std::optional<double> median;
  std::optional<double> outside;  // share of rows beyond 5 %
};
constexpr TimeGate kTimeGates[] = {{"dgxc", 5, 12, {}, {}},    {"simumax", 5, 12, {}, {}},
                                   {"kort22", 5, 12, {}, {}},  {"mlperf", 5, 12, {}, {}},
                                   {"bloom", 5, {}, {}, {}},   {"vtrain-m", {}, {}, 2, 25},
                                   {"vtrain-s", 8, {}, {}, {}}};

bool OfFamily(const TimeComparison& row, std::string_view family) {
  return row.entry.substr(0, row.entry.find(' ')) == family;
}

void AddTimeErrors(const std::string& name, std::vector<double> errors, const TimeGate& gate,
                   std::vector<AccuracyFigure>& figures) {
  if (errors.empty()) {
    return;
  }
  std::sort(errors.begin(), errors.end());
  double sum = 0;
  double outside = 0;
  for (const double error : errors) {
    sum += error;
    outside += error > 0.05;
  }
  const auto rows = static_cast<double>(errors.size());
  const auto at = [&errors](double share) {
    return 100 * errors[static_cast<size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  figures.push_back({name + ", rows", "rows", rows, std::nullopt});
  figures.push_back({name + ", mean error", "%", 100 * sum / rows, gate.mean});
  figures.push_back({name + ", median error", "%", at(0.5), gate.median});
  figures.push_back({name + ", 95th percentile", "%", at(0.95), gate.p95});
  figures.push_back({name + ", rows beyond 5 %", "%", 100 * outside / rows, gate.outside});
}

void AddTimeGates(TimeReport& report) {
  std::set<std::string> judged;
  for (const TimeGate& gate : kTimeGates) {
    for (const bool calibration : {true, false}) {
      std::vector<double> errors;
      for (const TimeComparison& row : report.rows) {
        if (OfFamily(row, gate.family) && row.calibration == calibration) {
          errors.push_back(std::abs(row.error()));
        }
      }
      AddTimeErrors(fmt::format("G6 time {}{}", gate.family, calibration ? " (calibration)" : ""),
                    std::move(errors), calibration ? TimeGate{} : gate, report.figures);
    }
    judged.insert(std::string(gate.family));
  }
  std::map<std::string, std::vector<double>> others;
  for (const TimeComparison& row : report.rows) {
    const std::string family = row.entry.substr(0, row.entry.find(' '));
    if (!judged.contains(family)) {
      others[family].push_back(std::abs(row.error()));
    }
  }
  for (auto& [family, errors] : others) {
    AddTimeErrors(fmt::format("time {}, not calibrated", family), std::move(errors), TimeGate{},
                  report.figures);
  }
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The median of what was fitted for other families than `family`, constant by constant.
TimeConstants MiddleOfOthers(const std::vector<TimedRow>& rows, std::string_view family) {
  std::set<std::string> names;
  for (const TimedRow& each : rows) {
    const std::string other = each.entry.substr(0, each.entry.find(' '));
    if (each.calibration && other != family) {
      names.insert(each.entry);
    }
  }
  TimeConstants middle = ShippedConstants();
  for (double TimeConstants::*const field : CalibratedConstants()) {
    std::vector<double> values;
    for (const std::string& name : names) {
      values.push_back(ConstantsOf(name).*field);
    }
    if (!values.empty()) {
      middle.*field = MedianOf(std::move(values));
    }
  }
  return middle;
}

// G7: constants that have not seen the family.
void AddLeaveOneOut(const std::vector<TimedRow>& rows, TimeReport& report) {
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const TimedRow& each) { return each.calibration; });
  for (const std::string_view family : {"dgxc", "simumax", "kort22", "mlperf", "bloom"}) {
    const TimeConstants constants = MiddleOfOthers(rows, family);
    std::vector<double> errors;
    for (const TimedRow& each : rows) {
      if (each.entry.substr(0, each.entry.find(' ')) == family) {
        errors.push_back(
            std::abs(SecondsOf(each.measured, constants) / each.measured.measured_seconds - 1));
      }
    }
    TimeGate gate;
    gate.mean = 10;
    AddTimeErrors(fmt::format("G7 time {}, {}", family,
                              any ? "middle of the other families" : "shipped constants"),
                  std::move(errors), gate, report.figures);
  }
}

// A set of runs that do the same work in different plans.
struct RankingGroup {
  std::string name;
  std::vector<double> predicted;  // seconds per sequence
  std::vector<double> measured;
  std::vector<double>
      rule;  // order of the rule "widest TP <= 8, smallest PP, smallest micro-batch"
};

std::string GroupOf(const TimedRow& each) {
  const ParallelPlan& plan = each.measured.plan;
  if (each.entry.substr(0, 8) == "vtrain-m") {
    return fmt::format("m {} {}", each.measured.model.layers, plan.degrees.Gpus());
  }
  if (each.entry.substr(0, 8) == "vtrain-s") {
    return fmt::format("s {} {} {} {}", each.measured.model.hidden, each.measured.model.layers,
                       plan.degrees.Gpus(), plan.global_batch);
  }
  if (each.row->Family() == "bloom" && each.measured.model.layers == 72 &&
      (plan.global_batch == 2016 || plan.global_batch == 2048) &&
      (each.row->Noted("GBS Variations") || each.row->Noted("Another round of NHEAD"))) {
    return "m bloom 384";
  }
  return "";
}

std::vector<RankingGroup> RankingGroups(const std::vector<TimedRow>& rows) {
  std::map<std::string, RankingGroup> groups;
  for (const TimedRow& each : rows) {
    const std::string name = GroupOf(each);
    if (name.empty()) {
      continue;
    }
    RankingGroup& group = groups[name];
    group.name = name;
    const ParallelPlan& plan = each.measured.plan;
    const auto batch = static_cast<double>(plan.global_batch);
    group.predicted.push_back(SecondsOf(each.measured, ConstantsOf(each.entry)) / batch);
    group.measured.push_back(each.measured.measured_seconds / batch);
    const int64_t tensor = plan.degrees.tensor;
    group.rule.push_back(static_cast<double>(tensor <= 8 ? 8 - tensor : 100) * 1e8 +
                         static_cast<double>(plan.degrees.pipeline) * 1e4 +
                         static_cast<double>(plan.micro_batch));
  }
  std::vector<RankingGroup> kept;
  for (auto& [name, group] : groups) {
    if (group.measured.size() >= 4) {
      kept.push_back(std::move(group));
    }
  }
  return kept;
}

double KendallTau(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  double pairs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double product = (a[i] - a[j]) * (b[i] - b[j]);
      sum += product > 0 ? 1 : product < 0 ? -1 : 0;
      pairs += 1;
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

size_t SmallestOf(const std::vector<double>& values) {
  return static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

// Whether the measured best is among the three that are predicted to be best.
bool HoldsBest(const RankingGroup& group) {
  const double best = group.predicted[SmallestOf(group.measured)];
  return std::count_if(group.predicted.begin(), group.predicted.end(),
                       [best](double value) { return value < best; }) < 3;
}

struct RankingGate {
  char kind;  // first letter of the groups' names
  std::string_view name;
  double tau;
  double worst_regret;
  double gain;         // against the rule, the least that is good; in percent
  double median_gain;  // against the median plan
};

void AddRankingGate(const std::vector<RankingGroup>& groups, const RankingGate& gate,
                    TimeReport& report) {
  double count = 0;
  double close = 0;
  double pairs = 0;
  double tau = 0;
  double regret = 0;
  double worst = 0;
  double held = 0;
  double gain = 0;
  double median_gain = 0;
  for (const RankingGroup& group : groups) {
    if (group.name[0] != gate.kind) {
      continue;
    }
    count += 1;
    tau += KendallTau(group.predicted, group.measured);
    for (size_t i = 0; i < group.measured.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        close += std::abs(std::log(group.measured[i] / group.measured[j])) < 0.03;
        pairs += 1;
      }
    }
    const double picked = group.measured[SmallestOf(group.predicted)];
    const double lost = picked / group.measured[SmallestOf(group.measured)] - 1;
    regret += lost;
    worst = std::max(worst, lost);
    held += HoldsBest(group);
    gain += 1 - picked / group.measured[SmallestOf(group.rule)];
    median_gain += 1 - picked / MedianOf(group.measured);
  }
  if (count == 0) {
    return;
  }
  const std::string name = fmt::format("G8 ranking, {} groups", gate.name);
  auto& figures = report.figures;
  figures.push_back({name + ", groups", "groups", count, std::nullopt});
  figures.push_back(
      {name + ", pairs closer than the noise of 3 %", "%", 100 * close / pairs, std::nullopt});
  figures.push_back({name + ", 1 - mean tau", "", 1 - tau / count, 1 - gate.tau});
  figures.push_back({name + ", mean top-1 regret", "%", 100 * regret / count, 2});
  figures.push_back({name + ", worst top-1 regret", "%", 100 * worst, gate.worst_regret});
  figures.push_back({name + ", best plan not in our top 3", "groups", count - held,
                     gate.kind == 'm' ? std::optional<double>(0) : std::nullopt});
  const std::string headline = fmt::format("G18 {} groups, share of the goal missed", gate.name);
  figures.push_back({fmt::format("G18 {} groups, gain over the rule", gate.name), "%",
                     100 * gain / count, std::nullopt});
  figures.push_back(
      {headline + " over the rule", "%", std::max(0.0, gate.gain - 100 * gain / count), 0});
  figures.push_back({fmt::format("G18 {} groups, gain over the median plan", gate.name), "%",
                     100 * median_gain / count, std::nullopt});
  figures.push_back({headline + " over the median plan", "%",
                     std::max(0.0, gate.median_gain - 100 * median_gain / count), 0});
}

}  // namespace

TimeReport MeasureTime(const MeasuredFile& file) {
  const std::vector<TimedRow> rows = TimedRows(file);
  TimeReport report;
  for (const TimedRow& each : rows) {
    report.rows.push_back({each.row->id(), each.entry,
                           SecondsOf(each.measured, ConstantsOf(each.entry)),
                           each.measured.measured_seconds, each.calibration});
  }
  AddTimeGates(report);
  AddLeaveOneOut(rows, report);
  const std::vector<RankingGroup> groups = RankingGroups(rows);
  AddRankingGate(groups, {'m', "multi-node", 0.70, 5, 18, 10}, report);
  AddRankingGate(groups, {'s', "single-node", 0.80, 15, 60, 22}, report);
  return report;
}

std::string TimePage(const TimeReport& report) {
  std::map<std::string, std::vector<const TimeComparison*>> entries;
  for (const TimeComparison& row : report.rows) {
    entries[row.entry].push_back(&row);
  }
  std::string text;
  for (const auto& [entry, rows] : entries) {
    const bool known = &ConstantsOf(entry) != &ShippedConstants();
    text += fmt::format("\n## Step time: {}\n\n{} rows, {} constants.\n", entry, rows.size(),
                        known ? "calibrated" : "shipped");
    if (!known || rows.size() > kTimeRowsShown) {
      continue;
    }
    text += "\n| row | predicted s | measured s | error % |\n|---|---:|---:|---:|\n";
    for (const TimeComparison* row : rows) {
      text += fmt::format("| {}{} | {:.3f} | {:.3f} | {:+.1f} |\n", row->id,
                          row->calibration ? " *" : "", row->predicted_seconds,
                          row->measured_seconds, 100 * row->error());
    }
  }
  return text;
}

std::vector<FittedEntry> FitTimeTable(const MeasuredFile& file) {
  const std::vector<TimedRow> rows = TimedRows(file);
  std::set<std::string> names;
  for (const TimedRow& each : rows) {
    if (each.calibration) {
      names.insert(each.entry);
    }
  }
  std::vector<FittedEntry> entries;
  for (const std::string& name : names) {
    entries.push_back(
        {name, FitRows(rows, [&name](const TimedRow& each) { return each.entry == name; })});
  }
  return entries;
}

}  // namespace asterism::planner
