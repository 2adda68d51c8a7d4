// File: agent/probe/sysfs_text.h
//
// Reads the small files and folders of sysfs. What is not there, or what the kernel refuses to tell
// (EINVAL of an unused table entry), is no value.
//
//   SysfsText("/sys/class/infiniband/mlx5_0/node_guid");   // "b83f:d203:005f:27a0"
//   SysfsNumber("/sys/bus/pci/devices/0000:1b:00.0/numa_node");
//
// Thread-safety: pure but for the files. Cost: open, read and close.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asterism::agent {

// The first kSysfsTextMax bytes without the last line end.
inline constexpr size_t kSysfsTextMax = 4096;
std::optional<std::string> SysfsText(const std::string& path);

// Decimal, or hexadecimal with 0x.
std::optional<int64_t> SysfsNumber(const std::string& path);
std::optional<int64_t> NumberOf(std::string_view text);

// Names in a folder, sorted, at most `limit`; none when there is no such folder.
std::vector<std::string> SysfsNames(const std::string& path, size_t limit = 4096);

// The real path of what a link points to; empty when it points nowhere.
std::string SysfsRealPath(const std::string& path);
// The last part of a path.
std::string_view LastPart(std::string_view path);

}  // namespace asterism::agent
