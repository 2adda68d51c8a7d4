#include "topology/import/topo_matrix.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "topology/import/text_lines.h"

namespace asterism::topology {
namespace {

struct MatrixCell {
  PathLevel level = PathLevel::kUnknown;
  uint16_t links = 0;
  PeerAccess access = PeerAccess::kUnknown;

  friend bool operator==(const MatrixCell&, const MatrixCell&) = default;
};

struct CellWord {
  std::string_view word;
  MatrixCell cell;
};

// The legends of the tools in one table. SOC is SYS of old drivers.
constexpr std::array<CellWord, 24> kCellWords = {{
    {"X", {PathLevel::kSelf}},
    {"PIX", {PathLevel::kPix}},
    {"PXB", {PathLevel::kPxb}},
    {"PIX/PXB", {PathLevel::kPxb}},
    {"PHB", {PathLevel::kPhb}},
    {"NODE", {PathLevel::kNode}},
    {"SYS", {PathLevel::kSys}},
    {"SOC", {PathLevel::kSys}},
    {"SIO", {PathLevel::kInternal, 1}},
    {"HCCS", {PathLevel::kUnknown, 1}},
    {"HCCS_SW", {PathLevel::kUnknown, 1}},
    {"XGMI", {PathLevel::kUnknown, 1}},
    {"MX", {PathLevel::kUnknown, 1}},
    {"MTLINK", {PathLevel::kUnknown, 1}},
    {"N/A", {}},
    {"NA", {}},
    {"OK", {PathLevel::kUnknown, 0, PeerAccess::kOk}},
    {"CNS", {PathLevel::kUnknown, 0, PeerAccess::kImpossible}},
    {"GNS", {PathLevel::kUnknown, 0, PeerAccess::kImpossible}},
    {"TNS", {PathLevel::kUnknown, 0, PeerAccess::kImpossible}},
    {"DR", {PathLevel::kUnknown, 0, PeerAccess::kImpossible}},
    {"NS", {PathLevel::kUnknown, 0, PeerAccess::kImpossible}},
    {"U", {PathLevel::kUnknown, 0, PeerAccess::kUnknown}},
    {"PSB", {PathLevel::kPxb}},
}};

std::optional<MatrixCell> CellOf(std::string_view word) {
  for (const CellWord& each : kCellWords) {
    if (each.word == word) {
      return each.cell;
    }
  }
  for (const std::string_view start : {"NV", "MX", "XGMI", "MT"}) {
    if (word.starts_with(start)) {
      if (const auto links = DecimalOf(word.substr(start.size()));
          links && *links > 0 && *links < 1000) {
        return MatrixCell{PathLevel::kUnknown, static_cast<uint16_t>(*links), PeerAccess::kUnknown};
      }
    }
  }
  return std::nullopt;
}

bool IsNumbered(std::string_view word, std::string_view start) {
  return word.size() > start.size() && word.starts_with(start) &&
         word.find_first_not_of("0123456789", start.size()) == std::string_view::npos;
}

bool IsGpuLabel(std::string_view word) {
  return IsNumbered(word, "GPU") || IsNumbered(word, "NPU") || IsNumbered(word, "MLU") ||
         IsNumbered(word, "DCU") || IsNumbered(word, "GCU");
}

bool IsNicLabel(std::string_view word) {
  if (IsNumbered(word, "NIC")) {
    return true;
  }
  for (const std::string_view start :
       {"mlx", "ib", "roce", "hns_", "bnxt", "efa", "irdma", "hfi"}) {
    if (word.starts_with(start) && word.size() > start.size() &&
        word.find_first_of("0123456789") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool IsLabel(std::string_view word) {
  return IsGpuLabel(word) || IsNicLabel(word);
}

// "GPU0GPU1" is two labels, "mlx5_0mlx5_1" too.
std::vector<std::string_view> SplitFused(std::string_view word) {
  std::vector<std::string_view> labels;
  size_t begin = 0;
  for (size_t at = 1; at < word.size(); ++at) {
    const std::string_view rest = word.substr(at);
    if (IsDigitChar(word[at - 1]) && (rest.starts_with("GPU") || rest.starts_with("NIC") ||
                                      rest.starts_with("NPU") || rest.starts_with("mlx"))) {
      labels.push_back(word.substr(begin, at - begin));
      begin = at;
    }
  }
  labels.push_back(word.substr(begin));
  return labels;
}

bool IsLabelOrFused(std::string_view word) {
  const std::vector<std::string_view> parts = SplitFused(word);
  return std::all_of(parts.begin(), parts.end(), IsLabel);
}

struct MatrixRow {
  std::string label;
  std::vector<MatrixCell> cells;
  std::vector<std::string> rest;
  uint32_t line = 0;
  bool cut = false;  // the text ends inside it
};

struct MatrixTable {
  std::vector<std::string> header;  // words, perhaps fused
  std::vector<MatrixRow> rows;
  std::string cut_word;  // the last word of the header's line, when it is no label
  bool header_done = false;
  bool peer_access = false;
};

// "3: " of srun --label, "[1,0]<stdout>:" of mpirun.
std::string_view WithoutTask(std::string_view line) {
  const size_t digits = line.find_first_not_of(" 0123456789");
  if (digits != std::string_view::npos && digits > 0 && line[digits] == ':' &&
      IsDigitChar(line[digits - 1])) {
    return line.substr(digits + 1);
  }
  const size_t out = line.find(">:");
  return line.starts_with('[') && out != std::string_view::npos ? line.substr(out + 2) : line;
}

// Comment and quote marks that mail and scripts put before lines.
std::string_view WithoutMarks(std::string_view line) {
  line = WithoutTask(line);
  size_t at = 0;
  while (at < line.size() &&
         (line[at] == '>' || line[at] == '|' || line[at] == '#' || IsBlankChar(line[at]))) {
    ++at;
  }
  return line.substr(at);
}

class MatrixReader {
 public:
  MatrixReader(std::string_view name, std::string_view text) : text_(WithoutEscapes(text)) {
    out_.source = std::string(name);
    out_.format = "topo-m";
  }

  absl::StatusOr<Imported> Read() {
    ReadTables();
    if (tables_.empty() || tables_.front().rows.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: line 1: no matrix with a header and rows in {} lines", out_.source, lines_));
    }
    MatrixTable& table = tables_.front();
    if (absl::Status status = FixColumns(table); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckShape(table); !status.ok()) {
      return status;
    }
    Fill(table);
    for (size_t i = 1; i < tables_.size(); ++i) {
      FillPeerAccess(tables_[i]);
    }
    Judge(table);
    return std::move(out_);
  }

 private:
  void ReadTables() {
    TextLines lines(text_);
    while (lines.Next()) {
      lines_ = lines.number();
      const std::string_view line = WithoutMarks(lines.line());
      const std::vector<std::string_view> words = WordsOf(line);
      ends_whole_ = lines.complete();
      last_line_ = Trimmed(line);
      if (words.empty()) {
        continue;
      }
      in_legend_ = in_legend_ || words[0] == "Legend:" || words[0] == "NIC";
      if (ReadLegend(line)) {
        continue;
      }
      if (!IsLabelOrFused(words[0])) {
        ReadContinuation(line, words, lines);
        continue;
      }
      const bool is_header = words.size() == 1 || words[1] == "CPU" || IsLabelOrFused(words[1]);
      if (is_header) {
        ReadHeader(words);
      } else if (IsLabel(words[0]) && !tables_.empty()) {
        row_text_ = std::string(line);
        ReadRow(words, lines);
      }
    }
  }

  // A terminal that is too narrow breaks rows anywhere, also inside a word.
  void ReadContinuation(std::string_view line, const std::vector<std::string_view>& words,
                        const TextLines& lines) {
    if (tables_.empty() || in_legend_) {
      return;
    }
    MatrixTable& table = tables_.back();
    if (table.rows.empty()) {
      if (!table.cut_word.empty() && IsLabelOrFused(table.cut_word + std::string(words[0]))) {
        table.header.push_back(table.cut_word + std::string(words[0]));
        table.cut_word.clear();
        table.header_done = false;
        ReadHeader({words.begin() + 1, words.end()});
      }
      return;
    }
    size_t columns = 0;
    for (const std::string& word : table.header) {
      columns += SplitFused(word).size();
    }
    const MatrixRow& row = table.rows.back();
    if (row.cells.size() >= columns || row_text_.size() > kLineBytesMax) {
      return;
    }
    const bool inside_word = row.rest.size() == 1;
    const std::string joined = row_text_ + (inside_word ? "" : " ") + std::string(line);
    const std::vector<std::string_view> all = WordsOf(joined);
    table.rows.pop_back();
    ReadRow(all, lines);
    row_text_ = joined;
  }

  // "NIC0: mlx5_0"
  bool ReadLegend(std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsNumbered(Trimmed(line.substr(0, colon)), "NIC")) {
      return false;
    }
    in_legend_ = true;
    const std::string_view device = Trimmed(line.substr(colon + 1));
    if (!device.empty()) {
      nic_names_.emplace(std::string(Trimmed(line.substr(0, colon))), std::string(device));
    }
    return true;
  }

  void ReadHeader(const std::vector<std::string_view>& words) {
    if (tables_.empty() || tables_.back().header_done) {
      tables_.emplace_back();
    }
    MatrixTable& table = tables_.back();
    for (size_t i = 0; i < words.size(); ++i) {
      if (!IsLabelOrFused(words[i])) {
        table.header_done = true;
        table.cut_word = i + 1 == words.size() ? std::string(words[i]) : "";
        break;
      }
      table.header.emplace_back(words[i]);
    }
  }

  void ReadRow(const std::vector<std::string_view>& words, const TextLines& lines) {
    MatrixTable& table = tables_.back();
    table.header_done = true;
    MatrixRow row{.label = std::string(words[0]), .line = lines.number()};
    size_t at = 1;
    for (; at < words.size() && row.cells.size() < kMatrixDevicesMax; ++at) {
      const std::optional<MatrixCell> cell = CellOf(words[at]);
      // A bare N/A behind the last column is the NUMA field.
      if (!cell.has_value()) {
        break;
      }
      table.peer_access = table.peer_access || words[at] == "OK" || words[at] == "CNS" ||
                          words[at] == "GNS" || words[at] == "TNS" || words[at] == "DR";
      row.cells.push_back(*cell);
    }
    for (; at < words.size(); ++at) {
      row.rest.emplace_back(words[at]);
    }
    row.cut = !lines.complete() && row.rest.empty();
    if (!lines.complete() && row.rest.size() == 1 && row.rest[0].size() < 4 &&
        !IsDigitChar(row.rest[0][0])) {
      row.rest.clear();  // a cell that was cut
      row.cut = true;
    }
    table.rows.push_back(std::move(row));
  }

  // Splits fused labels where every part has its cell; where a fused label stands over one cell it
  // is left out.
  absl::Status FixColumns(MatrixTable& table) {
    std::vector<std::string> split;
    for (const std::string& word : table.header) {
      for (const std::string_view part : SplitFused(word)) {
        split.emplace_back(part);
      }
    }
    if (split.size() > kMatrixDevicesMax) {
      return absl::InvalidArgumentError(
          fmt::format("{}: more than {} devices in one matrix", out_.source, kMatrixDevicesMax));
    }
    size_t widest = 0;
    for (const MatrixRow& row : table.rows) {
      widest = std::max(widest, row.cells.size());
    }
    if (widest >= split.size() || split.size() == table.header.size()) {
      columns_ = std::move(split);
      dropped_.assign(columns_.size(), false);
    } else {
      columns_ = table.header;
      dropped_.assign(columns_.size(), false);
      for (size_t i = 0; i < columns_.size(); ++i) {
        if (SplitFused(columns_[i]).size() > 1) {
          dropped_[i] = true;
          out_.Damage(
              table.rows.front().line,
              fmt::format("the fused label \"{}\" stands over one cell: that column is left out",
                          Excerpt(columns_[i])));
        }
      }
    }
    for (MatrixRow& row : table.rows) {
      // N/A and numbers that look like cells belong to the fields behind the matrix.
      while (row.cells.size() > columns_.size()) {
        row.rest.insert(row.rest.begin(), "N/A");
        row.cells.pop_back();
      }
    }
    return absl::OkStatus();
  }

  absl::Status Reject(const std::vector<std::string>& reasons) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", out_.source, fmt::join(reasons, "; ")));
  }

  absl::Status CheckShape(MatrixTable& table) {
    std::vector<std::string> reasons;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!column_of_.emplace(columns_[i], i).second) {
        reasons.push_back(fmt::format("column {} is there twice", columns_[i]));
      }
    }
    for (const MatrixRow& row : table.rows) {
      const auto column = column_of_.find(row.label);
      if (column == column_of_.end()) {
        reasons.push_back(
            fmt::format("line {}: row {} has no column", row.line, Excerpt(row.label)));
        continue;
      }
      if (!row_of_.emplace(row.label, &row).second) {
        reasons.push_back(fmt::format("line {}: row {} is there twice", row.line, row.label));
        continue;
      }
      for (size_t i = 0; i < row.cells.size(); ++i) {
        const bool self = row.cells[i].level == PathLevel::kSelf;
        if (self != (i == column->second)) {
          reasons.push_back(fmt::format(
              "line {}: row {}: self cell not on the diagonal ({} of {} cells): the row lost or "
              "gained one",
              row.line, row.label, row.cells.size(), columns_.size()));
          break;
        }
      }
      if (row.cells.size() < columns_.size() && !row.cut && reasons.empty()) {
        reasons.push_back(fmt::format("line {}: row {} has {} cells for {} columns", row.line,
                                      row.label, row.cells.size(), columns_.size()));
      }
    }
    if (reasons.empty()) {
      CheckSymmetry(reasons);
    }
    return reasons.empty() ? absl::OkStatus() : Reject(reasons);
  }

  void CheckSymmetry(std::vector<std::string>& reasons) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      for (size_t j = i + 1; j < columns_.size(); ++j) {
        const MatrixCell* forth = CellAt(i, j);
        const MatrixCell* back = CellAt(j, i);
        if (forth != nullptr && back != nullptr && !(*forth == *back)) {
          reasons.push_back(fmt::format(
              "cell({},{}) is {} but cell({},{}) is {}: a row or column was swapped", columns_[i],
              columns_[j], Named(*forth), columns_[j], columns_[i], Named(*back)));
          return;
        }
      }
    }
  }

  static std::string Named(const MatrixCell& cell) {
    return cell.links > 0 ? fmt::format("NV{}", cell.links)
                          : std::string(PathLevelName(cell.level));
  }

  const MatrixCell* CellAt(size_t row, size_t column) const {
    const auto it = row_of_.find(columns_[row]);
    return it != row_of_.end() && column < it->second->cells.size() ? &it->second->cells[column]
                                                                    : nullptr;
  }

  // The cell, from either side of the diagonal. A row that was cut does not tell which card is
  // nearest.
  MatrixCell Known(size_t row, size_t column) const {
    const MatrixCell* forth = CellAt(row, column);
    if (forth != nullptr && row_of_.find(columns_[row])->second->cut) {
      const bool nic = IsNicLabel(columns_[column]);
      forth = nic ? nullptr : forth;
    }
    const MatrixCell* back = CellAt(column, row);
    return forth != nullptr ? *forth : back != nullptr ? *back : MatrixCell();
  }

  void Fill(const MatrixTable&) {
    HostTopology host;
    std::vector<size_t> gpus;
    std::vector<size_t> nics;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!dropped_[i]) {
        (IsGpuLabel(columns_[i]) ? gpus : nics).push_back(i);
      }
    }
    for (const size_t gpu : gpus) {
      host.gpus.push_back({.label = columns_[gpu]});
      FillFields(host.gpus.back());
    }
    for (const size_t nic : nics) {
      const auto name = nic_names_.find(columns_[nic]);
      host.nics.push_back({.label = columns_[nic],
                           .device = name == nic_names_.end() ? columns_[nic] : name->second});
    }
    host.Resize();
    host.links_known = true;
    for (size_t i = 0; i < gpus.size(); ++i) {
      for (size_t j = 0; j < gpus.size(); ++j) {
        if (i != j) {
          const MatrixCell cell = Known(gpus[i], gpus[j]);
          host.pair(i, j) = {cell.level, cell.links, cell.access};
        }
      }
      for (size_t j = 0; j < nics.size(); ++j) {
        host.nic_level(i, j) = Known(gpus[i], nics[j]).level;
      }
    }
    for (const size_t i : nics) {
      for (const size_t j : nics) {
        host.nic_to_nic.push_back(i == j ? PathLevel::kSelf : Known(i, j).level);
      }
    }
    out_.host = std::move(host);
  }

  // CPU list and NUMA node, the fields behind the matrix.
  void FillFields(HostGpu& gpu) const {
    const auto row = row_of_.find(gpu.label);
    if (row == row_of_.end() || row->second->rest.empty()) {
      return;
    }
    const std::vector<std::string>& rest = row->second->rest;
    gpu.cpulist = rest[0] == "N/A" ? "" : rest[0];
    if (rest.size() > 1) {
      const std::string_view numa = rest[1];
      if (const auto node = DecimalOf(numa.substr(0, numa.find_first_of(",-")));
          node && *node < 4096) {
        gpu.numa = static_cast<int>(*node);
      }
    }
  }

  void FillPeerAccess(const MatrixTable& table) {
    if (!table.peer_access) {
      return;
    }
    HostTopology& host = *out_.host;
    const auto index_of = [&host](std::string_view label) {
      for (size_t i = 0; i < host.gpus.size(); ++i) {
        if (host.gpus[i].label == label) {
          return i;
        }
      }
      return host.gpus.size();
    };
    for (const MatrixRow& row : table.rows) {
      const size_t gpu = index_of(row.label);
      for (size_t i = 0; i < std::min(row.cells.size(), table.header.size()); ++i) {
        const size_t other = index_of(table.header[i]);
        if (gpu < host.gpus.size() && other < host.gpus.size() && gpu != other) {
          host.pair(gpu, other).access = row.cells[i].access;
        }
      }
    }
  }

  void Judge(const MatrixTable& table) {
    size_t gpu_rows = 0;
    size_t nic_rows = 0;
    for (const MatrixRow& row : table.rows) {
      if (row.cut && row.cells.size() < columns_.size()) {
        out_.Damage(row.line, fmt::format("truncated inside row {}", row.label));
      }
      (IsGpuLabel(row.label) ? gpu_rows : nic_rows) += 1;
    }
    const size_t gpus = out_.host->gpus.size();
    const size_t nics = out_.host->nics.size();
    if (gpu_rows < gpus) {
      out_.Damage(lines_, fmt::format("{} of {} GPU rows absent", gpus - gpu_rows, gpus));
    }
    if (nic_rows > 0 && nic_rows < nics) {
      out_.Damage(lines_, fmt::format("{} of {} NIC rows absent, GPU rows {}", nics - nic_rows,
                                      nics, gpu_rows == gpus ? "complete" : "not complete"));
    }
    if (in_legend_ && !ends_whole_ && LegendIsCut()) {
      out_.Damage(lines_, "legend truncated, matrix complete");
    }
  }

  bool LegendIsCut() const {
    for (const std::string_view end :
         {"Self", ")", "bridge", "bridges", "switch", "NVLinks", "node", "NUMA nodes", "CPU"}) {
      if (last_line_.ends_with(end)) {
        return false;
      }
    }
    return last_line_.find('=') != std::string::npos || last_line_.ends_with(':');
  }

  const std::string text_;
  Imported out_;
  std::vector<MatrixTable> tables_;
  std::vector<std::string> columns_;
  std::vector<bool> dropped_;
  base::StringMap<size_t> column_of_;
  base::StringMap<const MatrixRow*> row_of_;
  base::StringMap<std::string> nic_names_;
  std::string last_line_;
  std::string row_text_;  // of the row that is read
  uint32_t lines_ = 0;
  bool in_legend_ = false;
  bool ends_whole_ = true;
};

}  // namespace

bool LooksLikeTopoMatrix(std::string_view head) {
  const std::string clean = WithoutEscapes(head);
  TextLines lines(clean);
  while (lines.Next()) {
    const std::string_view line = WithoutMarks(lines.line());
    const std::vector<std::string_view> words = WordsOf(line.substr(0, 4096));
    if (!words.empty() && IsGpuLabel(SplitFused(words[0])[0]) &&
        (words.size() == 1 || IsLabelOrFused(words[1]) || words[1] == "CPU" || CellOf(words[1]))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<Imported> ImportTopoMatrix(std::string_view name, std::string_view text) {
  return MatrixReader(name, text).Read();
}

bool LooksLikeNvlinkStatus(std::string_view head) {
  return head.find("Link ") != std::string_view::npos &&
         (head.find("GB/s") != std::string_view::npos ||
          head.find("<inactive>") != std::string_view::npos) &&
         head.find("GPU ") != std::string_view::npos;
}

absl::StatusOr<Imported> ImportNvlinkStatus(std::string_view name, std::string_view text) {
  Imported out;
  out.source = std::string(name);
  out.format = "nvlink-status";
  TextLines lines(text);
  std::string gpu;
  int64_t gpus = 0;
  int64_t links = 0;
  int64_t inactive = 0;
  while (lines.Next()) {
    const std::string_view line = Trimmed(lines.line());
    if (line.starts_with("GPU ")) {
      gpu = std::string(line.substr(0, line.find(':')));
      ++gpus;
    } else if (line.starts_with("Link ")) {
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) {
        out.Damage(lines.number(), "a link without a state (cut off?)");
        continue;
      }
      ++links;
      if (line.find("inactive", colon) != std::string_view::npos) {
        ++inactive;
        out.Note(lines.number(), FindingKind::kNvlinkLinkDown, gpu,
                 fmt::format("{} is inactive", line.substr(0, colon)));
      }
    }
  }
  if (links == 0) {
    return absl::InvalidArgumentError(fmt::format("{}: line 1: no link line", out.source));
  }
  out.summary["gpus"] = gpus;
  out.summary["links"] = links;
  out.summary["inactive_links"] = inactive;
  return out;
}

}  // namespace asterism::topology
