#include "controller/visible_namespaces.h"

#include <utility>

namespace asterism::controller {
namespace {

// The reviews of one question, which end in any order.
struct Gathering {
  VisibleNamespaces visible;
  absl::Status error;
  size_t missing = 0;
  absl::AnyInvocable<void(const absl::StatusOr<VisibleNamespaces>&)> done;

  void End() {
    if (!error.ok()) {
      done(error);
    } else {
      done(std::move(visible));
    }
  }
};

void AskEach(AccessReview& access, const std::shared_ptr<const Caller>& caller,
             const std::set<std::string>& candidates, std::shared_ptr<Gathering> gathering) {
  gathering->missing = 1;  // this loop itself
  size_t asked = 0;
  for (const std::string& name : candidates) {
    if (++asked > kNamespacesAskedMax) {
      break;
    }
    ++gathering->missing;
    access.Review(caller, {.verb = "list", .namespace_name = name},
                  [gathering, name](const absl::Status& status) {
                    if (status.ok()) {
                      gathering->visible.names.insert(name);
                    } else if (!absl::IsPermissionDenied(status)) {
                      gathering->error = status;
                    }
                    if (--gathering->missing == 0) {
                      gathering->End();
                    }
                  });
  }
  if (--gathering->missing == 0) {
    gathering->End();
  }
}

}  // namespace

void FindVisibleNamespaces(
    AccessReview& access, const std::shared_ptr<const Caller>& caller,
    std::set<std::string> candidates,
    absl::AnyInvocable<void(const absl::StatusOr<VisibleNamespaces>&)> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  access.Review(
      caller, {.verb = "list"},
      [&access, caller, candidates = std::move(candidates), gathering](const absl::Status& status) {
        if (status.ok()) {
          gathering->visible.all = true;
          gathering->End();
        } else if (absl::IsPermissionDenied(status)) {
          AskEach(access, caller, candidates, gathering);
        } else {
          gathering->error = status;
          gathering->End();
        }
      });
}

}  // namespace asterism::controller
