// File: controller/visible_namespaces.h
//
// Of which namespaces a caller may see the names of jobs: those in which it may list TrainingJobs.
//
//   FindVisibleNamespaces(access, caller, {"research", "vision"},
//                         [](const absl::StatusOr<VisibleNamespaces>& visible) { ... });
//   visible->Shows("research")
//
// The right to list them in the whole cluster shows all. Of the candidates the first
// kNamespacesAskedMax by name are asked about; the others stay hidden.
//
// Thread-safety: FindVisibleNamespaces on the core executor; the answer is a value. Cost: one
// review, and one a namespace where that says no; all of them at once, and kept for 10 s.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "controller/access_review.h"

namespace asterism::controller {

inline constexpr size_t kNamespacesAskedMax = 256;

struct VisibleNamespaces {
  bool all = false;
  std::set<std::string, std::less<>> names;

  bool Shows(std::string_view namespace_name) const {
    return all || names.contains(namespace_name);
  }
};

void FindVisibleNamespaces(AccessReview& access, const std::shared_ptr<const Caller>& caller,
                           std::set<std::string> candidates,
                           absl::AnyInvocable<void(const absl::StatusOr<VisibleNamespaces>&)> done);

}  // namespace asterism::controller
