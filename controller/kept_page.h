// File: controller/kept_page.h
//
// A page that costs as much as the cluster is large, made once for each picture that it shows: who
// asks for it again and again gets the same bytes, and holds up nobody else on the thread that
// answers probes.
//
//   KeptPage page;
//   response.body = page.Get({view, state}, leading, [&] { return TopologyPage(*view, ...); });
//
// Pictures are told apart by their owners, which it does not keep alive.
//
// Thread-safety: any thread; one makes the page, others wait for it. Cost: that of a copy.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace asterism::controller {

class KeptPage {
 public:
  using Pictures = std::array<std::shared_ptr<const void>, 2>;

  std::string Get(const Pictures& pictures, bool leading, absl::FunctionRef<std::string()> make) {
    absl::MutexLock lock(&mutex_);
    if (!made_ || leading != leading_ || !Same(pictures)) {
      text_ = make();
      made_ = true;
      leading_ = leading;
      for (size_t i = 0; i < pictures.size(); ++i) {
        of_[i] = pictures[i];
      }
    }
    return text_;
  }

 private:
  bool Same(const Pictures& pictures) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < pictures.size(); ++i) {
      if (of_[i].owner_before(pictures[i]) || pictures[i].owner_before(of_[i])) {
        return false;
      }
    }
    return true;
  }

  absl::Mutex mutex_;
  bool made_ ABSL_GUARDED_BY(mutex_) = false;
  bool leading_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::weak_ptr<const void>, 2> of_ ABSL_GUARDED_BY(mutex_);
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace asterism::controller
