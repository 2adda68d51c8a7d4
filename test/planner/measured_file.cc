#include "test/planner/measured_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace asterism::planner {
namespace {

constexpr std::string_view kNeededColumns[] = {
    "id",        "model",     "params_b", "layers", "hidden", "heads",      "kv_heads", "ffn",
    "vocab",     "seq",       "experts",  "topk",   "gpu",    "gpu_mem_gb", "gpus",     "tp",
    "pp",        "cp",        "ep",       "dp",     "vpp",    "mbs",        "gbs",      "recompute",
    "precision", "framework", "measure",  "value",  "unit",   "notes"};

// One record with quotes as in RFC 4180; `text` loses it. No field of a row holds a line break.
absl::StatusOr<std::vector<std::string>> TakeRecord(std::string_view& text, int line) {
  const size_t end = text.find('\n');
  std::string_view record = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!record.empty() && record.back() == '\r') {
    record.remove_suffix(1);
  }
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t at = 0; at < record.size(); ++at) {
    const char letter = record[at];
    if (quoted && letter == '"' && at + 1 < record.size() && record[at + 1] == '"') {
      cells.back() += '"';
      ++at;
    } else if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += letter;
    }
  }
  if (quoted) {
    return absl::InvalidArgumentError(fmt::format("line {}: a quote is not closed", line));
  }
  return cells;
}

}  // namespace

const std::string& MeasuredRow::Text(std::string_view column) const {
  static const std::string kNone;
  const auto found = std::find(columns_->begin(), columns_->end(), column);
  return found == columns_->end() ? kNone : cells_[static_cast<size_t>(found - columns_->begin())];
}

std::optional<double> MeasuredRow::Number(std::string_view column) const {
  const std::string& text = Text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

int64_t MeasuredRow::Whole(std::string_view column) const {
  return static_cast<int64_t>(Number(column).value_or(0));
}

bool MeasuredRow::Noted(std::string_view words) const {
  return Text("notes").find(words) != std::string::npos;
}

std::string MeasuredRow::Family() const {
  return id().substr(0, id().find('-'));
}

std::string MeasuredRow::Run() const {
  return id().substr(0, id().rfind('/'));
}

absl::StatusOr<std::unique_ptr<const MeasuredFile>> ParseMeasuredFile(std::string_view text) {
  auto file = std::make_unique<MeasuredFile>();
  ASSIGN_OR_RETURN(file->columns, TakeRecord(text, 1));
  for (const std::string_view needed : kNeededColumns) {
    if (std::find(file->columns.begin(), file->columns.end(), needed) == file->columns.end()) {
      return absl::InvalidArgumentError(fmt::format("line 1: there is no column {}", needed));
    }
  }
  for (int line = 2; !text.empty(); ++line) {
    ASSIGN_OR_RETURN(std::vector<std::string> cells, TakeRecord(text, line));
    if (cells.size() != file->columns.size()) {
      return absl::InvalidArgumentError(fmt::format("line {}: {} cells, the header has {}", line,
                                                    cells.size(), file->columns.size()));
    }
    file->rows.emplace_back(&file->columns, std::move(cells));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<const MeasuredFile>> ReadMeasuredFile(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) {
    return absl::NotFoundError(fmt::format("{}: cannot be read", path));
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return ParseMeasuredFile(text.str());
}

}  // namespace asterism::planner
