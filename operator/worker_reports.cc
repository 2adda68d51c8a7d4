#include "operator/worker_reports.h"

#include <utility>

namespace asterism::operators {
namespace {

constexpr size_t kReportsMax = 32'768;
constexpr size_t kReportsOfNodeMax = 2'048;

}  // namespace

bool EndedBadly(const WorkerReport* report) {
  constexpr int32_t kSigkill = 9;
  return report != nullptr && report->exit.has_value() &&
         report->exit->exit_code.value_or(0) != 0 && report->exit->signal.value_or(0) != kSigkill &&
         report->exit->exit_code != 128 + kSigkill;
}

void WorkerReports::Put(const std::string& pod_uid, WorkerReport report, base::SteadyTime now) {
  const Key key(pod_uid, report.node);
  Entry& entry = entries_[key];
  const bool further =
      report.progress.has_value() &&
      (!entry.report.progress.has_value() || report.progress->step > entry.report.progress->step);
  report.progressed = further ? now : entry.report.progressed;
  report.first_heard = entry.heard == 0 ? now : entry.report.first_heard;
  entry.report = std::move(report);
  std::set<uint64_t>& ages = by_node_[key.second];
  by_age_.erase(entry.heard);
  ages.erase(entry.heard);
  entry.heard = ++number_;
  by_age_[entry.heard] = key;
  ages.insert(entry.heard);
  if (ages.size() > kReportsOfNodeMax || entries_.size() > kReportsMax) {
    const uint64_t age =
        ages.size() > kReportsOfNodeMax ? *ages.begin() : by_age_.begin()->first;
    const Key oldest = by_age_.at(age);
    Erase(oldest.first, oldest.second);
  }
}

const WorkerReport* WorkerReports::Find(std::string_view pod_uid, std::string_view node) const {
  const auto found = entries_.find(Key(pod_uid, node));
  return found == entries_.end() ? nullptr : &found->second.report;
}

void WorkerReports::Erase(std::string_view pod_uid, std::string_view node) {
  if (const auto found = entries_.find(Key(pod_uid, node)); found != entries_.end()) {
    const auto ages = by_node_.find(node);
    ages->second.erase(found->second.heard);
    if (ages->second.empty()) {
      by_node_.erase(ages);
    }
    by_age_.erase(found->second.heard);
    entries_.erase(found);
  }
}

}  // namespace asterism::operators
