// File: kube/watch_metrics.h
//
// How the watches of a program fare: lists, streams and what ended them.
//
//   WatchMetrics metrics(registry);
//   metrics.Report("pods", informer.stats(), informer.SilentFor());   // every few seconds
//
// Thread-safety: none; lives where the watchers live. Cost: six lookups a call.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "base/metrics.h"
#include "kube/watcher.h"

namespace asterism::kube {

class WatchMetrics {
 public:
  explicit WatchMetrics(base::MetricRegistry& registry)
      : lists_(registry.AddCounter("asterism_kube_lists_total",
                                   "Complete lists of a resource; more than one a resource means "
                                   "that its watch could not go on.",
                                   {"resource"})),
        watches_(registry.AddCounter("asterism_kube_watches_total",
                                     "Watch streams that were opened.", {"resource"})),
        failures_(registry.AddCounter("asterism_kube_watch_failures_total",
                                      "What ended a watch or a list: expired (410), error, silent "
                                      "(given up by the watchdog).",
                                      {"resource", "reason"})),
        unreadable_(registry.AddCounter("asterism_kube_unreadable_objects_total",
                                        "Objects that could not be decoded and are not seen.",
                                        {"resource"})),
        silent_seconds_(registry.AddGauge("asterism_kube_watch_silent_seconds",
                                          "Since the API server was last heard of on the watch; it "
                                          "sends a bookmark about every minute.",
                                          {"resource"})) {}

  void Report(const std::string& resource, const WatcherStats& now, absl::Duration silent) {
    WatcherStats& last = last_[resource];
    lists_.With({resource}).Add(now.lists - last.lists);
    watches_.With({resource}).Add(now.watches - last.watches);
    failures_.With({resource, "expired"}).Add(now.expired - last.expired);
    failures_.With({resource, "error"}).Add(now.errors - last.errors);
    failures_.With({resource, "silent"}).Add(now.silent - last.silent);
    unreadable_.With({resource}).Add(now.unreadable - last.unreadable);
    silent_seconds_.With({resource}).Set(absl::ToDoubleSeconds(silent));
    last = now;
  }

 private:
  base::CounterFamily& lists_;
  base::CounterFamily& watches_;
  base::CounterFamily& failures_;
  base::CounterFamily& unreadable_;
  base::GaugeFamily& silent_seconds_;
  std::map<std::string, WatcherStats> last_;
};

}  // namespace asterism::kube
