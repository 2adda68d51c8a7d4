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
  // After a break, what happened meanwhile is not known: time counts from now.
  report.speaks_since =
      report.connected ? std::optional(entry.report.speaks_since.value_or(now)) : std::nullopt;
  entry.report = std::move(report);
  Voice& voice = by_node_[key.second];
  voice.heard = now;
  std::set<uint64_t>& ages = voice.ages;
  by_age_.erase(entry.heard);
  ages.erase(entry.heard);
  entry.heard = ++number_;
  by_age_[entry.heard] = key;
  ages.insert(entry.heard);
  if (ages.size() > kReportsOfNodeMax || entries_.size() > kReportsMax) {
    const uint64_t age = ages.size() > kReportsOfNodeMax ? *ages.begin() : by_age_.begin()->first;
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
    const auto voice = by_node_.find(node);
    voice->second.ages.erase(found->second.heard);
    if (voice->second.ages.empty()) {
      by_node_.erase(voice);
    }
    by_age_.erase(found->second.heard);
    entries_.erase(found);
  }
}

void WorkerReports::Hear(std::string_view node, base::SteadyTime now) {
  if (const auto voice = by_node_.find(node); voice != by_node_.end()) {
    voice->second.heard = now;
  }
}

base::SteadyTime WorkerReports::Heard(std::string_view node) const {
  const auto voice = by_node_.find(node);
  return voice == by_node_.end() ? base::SteadyTime() : voice->second.heard;
}

void WorkerReports::Silence(std::string_view node) {
  const auto voice = by_node_.find(node);
  if (voice == by_node_.end()) {
    return;
  }
  for (const uint64_t age : voice->second.ages) {
    entries_.at(by_age_.at(age)).report.speaks_since.reset();
  }
}

}  // namespace asterism::operators
