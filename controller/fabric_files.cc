#include "controller/fabric_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/import_text.h"

namespace asterism::controller {
namespace {

std::string NameOf(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

// Changes with each version of a file; a mounted ConfigMap is replaced by a link to another file.
absl::StatusOr<std::string> StampOf(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    return absl::NotFoundError(fmt::format("{}: {}", path, std::strerror(errno)));  // NOLINT
  }
  return fmt::format("{}.{} {} {} {}", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size,
                     facts.st_ino, facts.st_dev);
}

absl::StatusOr<topology::Fabric> ImportFabric(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, base::ReadFile(path, topology::kImportBytesMax));
  ASSIGN_OR_RETURN(bytes, topology::Decompressed(std::move(bytes)));
  ASSIGN_OR_RETURN(topology::Imported imported, topology::ImportText(NameOf(path), bytes));
  if (!imported.fabric.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is {}, which describes no fabric: give a dump such as that of ibnetdiscover", path,
        imported.format));
  }
  return *std::move(imported.fabric);
}

}  // namespace

FabricFiles::FabricFiles(base::Executor& core, base::Executor& work, std::vector<std::string> paths,
                         Taken taken)
    : core_(core), work_(work), taken_(std::move(taken)), timer_(core) {
  for (std::string& path : paths) {
    files_.push_back({.path = std::move(path), .stamp = {}, .error = {}});
  }
}

void FabricFiles::Start() {
  if (!files_.empty()) {
    Look();
  }
}

void FabricFiles::Look() {
  ReadOne(0);
}

// One file after another; the next look comes when all were looked at.
void FabricFiles::ReadOne(size_t index) {
  if (index == files_.size()) {
    timer_.Start(kFabricLookPeriod, [this] { Look(); });
    return;
  }
  work_.Post([path = files_[index].path, known = files_[index].stamp, &core = core_,
              done = alive_.Wrap([this, index](const std::shared_ptr<Read>& read) {
                OnRead(index, read);
              })]() mutable {
    auto read = std::make_shared<Read>(Read{.stamp = {}, .fabric = absl::UnknownError("")});
    absl::StatusOr<std::string> stamp = StampOf(path);
    if (!stamp.ok()) {
      read->fabric = stamp.status();
    } else if (*stamp != known) {
      read->fabric = ImportFabric(path);
      read->stamp = *std::move(stamp);
    } else {
      read->stamp = known;
    }
    core.Post([read, done = std::move(done)]() mutable { done(read); });
  });
}

void FabricFiles::OnRead(size_t index, const std::shared_ptr<Read>& read) {
  File& file = files_[index];
  if (read->stamp != file.stamp) {
    file.stamp = read->stamp;
    std::string error;
    if (read->fabric.ok()) {
      base::LogInfo("fabric_read",
                    {{"file", file.path},
                     {"devices", static_cast<uint64_t>(read->fabric->devices.size())},
                     {"links", static_cast<uint64_t>(read->fabric->half_links.size())}});
      taken_(NameOf(file.path), *std::move(read->fabric));
    } else {
      error = std::string(read->fabric.status().message());
    }
    if (!error.empty() && error != file.error) {
      base::LogWarning("fabric_not_read", {{"file", file.path}, {"error", error}});
    }
    file.error = std::move(error);
  }
  ReadOne(index + 1);
}

}  // namespace asterism::controller
