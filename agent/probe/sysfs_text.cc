#include "agent/probe/sysfs_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>

namespace asterism::agent {

std::optional<std::string> SysfsText(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return std::nullopt;
  }
  std::array<char, kSysfsTextMax> buffer;
  ssize_t count = -1;
  do {
    count = read(file, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  close(file);
  if (count < 0) {
    return std::nullopt;
  }
  std::string text(buffer.data(), static_cast<size_t>(count));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::optional<int64_t> NumberOf(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  text.remove_prefix(hexadecimal ? 2 : 0);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || value > INT64_MAX) {
    return std::nullopt;
  }
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<int64_t> SysfsNumber(const std::string& path) {
  const std::optional<std::string> text = SysfsText(path);
  return text.has_value() ? NumberOf(*text) : std::nullopt;
}

std::vector<std::string> SysfsNames(const std::string& path, size_t limit) {
  std::vector<std::string> names;
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {
    return names;
  }
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && names.size() < limit) {
      names.emplace_back(name);
    }
  }
  closedir(folder);
  std::ranges::sort(names);
  return names;
}

std::string SysfsRealPath(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  if (real == nullptr) {
    return "";
  }
  std::string result = real;
  std::free(real);
  return result;
}

std::string_view LastPart(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace asterism::agent
