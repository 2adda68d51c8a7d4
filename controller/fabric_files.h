// File: controller/fabric_files.h
//
// Dumps of fabrics as files that somebody keeps up to date: reads each again when it changes, and
// imports it off the core executor, which an import of a large fabric would hold up.
//
//   FabricFiles files(core, work, {"/etc/asterism/fabric.txt"},
//                     [&](const std::string& name, topology::Fabric fabric) { ... });
//   files.Start();
//
// A file that cannot be read, or says nothing about a fabric, changes nothing: the last good dump
// stays in use, and its age tells.
//
// Bounds: topology::kImportBytesMax a file, one import at a time, a look each kFabricLookPeriod.
//
// Thread-safety: lives on the core; `work` is another executor, or the same in tests. Destroy it
// after `work` has stopped. Cost: a stat a file and look; an import when a file has changed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/executor.h"
#include "topology/fabric.h"

namespace asterism::controller {

inline constexpr absl::Duration kFabricLookPeriod = absl::Seconds(10);

class FabricFiles {
 public:
  // On the core; the name is that of the file without its folder.
  using Taken = std::function<void(const std::string& name, topology::Fabric fabric)>;

  FabricFiles(base::Executor& core, base::Executor& work, std::vector<std::string> paths,
              Taken taken);

  void Start();

 private:
  struct File {
    std::string path;
    std::string stamp;  // of the version that was read last
    std::string error;  // as told last
  };
  struct Read {
    std::string stamp;
    absl::StatusOr<topology::Fabric> fabric;
  };

  void Look();
  void ReadOne(size_t index);
  void OnRead(size_t index, const std::shared_ptr<Read>& read);

  base::Executor& core_;
  base::Executor& work_;
  const Taken taken_;
  std::vector<File> files_;
  base::OwnedTimer timer_;
  base::Alive alive_;
};

}  // namespace asterism::controller
