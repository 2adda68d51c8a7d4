#include "topology/import/document_tree.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "topology/import/text_lines.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace asterism::topology {
namespace {

// Puts values into a tree in document order; both readers drive it.
class DocumentBuilder {
 public:
  // The reason why it cannot go on; empty while it can.
  const std::string& refused() const { return refused_; }
  std::vector<DocumentNode> TakeDocuments() { return std::move(documents_); }

  void Begin() {
    documents_.emplace_back();
    open_.clear();
  }
  bool Scalar(DocumentNode::Kind kind, std::string text, uint32_t line) {
    if (!open_.empty() && open_.back().node->is_map() && !open_.back().key.has_value()) {
      open_.back().key = std::move(text);
      return true;
    }
    DocumentNode* node = Slot();
    if (node == nullptr) {
      return false;
    }
    node->kind = kind;
    node->text = std::move(text);
    node->line = line;
    return true;
  }
  bool Open(DocumentNode::Kind kind, uint32_t line) {
    if (open_.size() >= kDocumentDepthMax) {
      refused_ = fmt::format("nested deeper than {} levels", kDocumentDepthMax);
      return false;
    }
    if (!open_.empty() && open_.back().node->is_map() && !open_.back().key.has_value()) {
      refused_ = "a key must be a word";
      return false;
    }
    DocumentNode* node = Slot();
    if (node == nullptr) {
      return false;
    }
    node->kind = kind;
    node->line = line;
    open_.push_back({node, std::nullopt});
    return true;
  }
  void Close() {
    if (!open_.empty()) {
      open_.pop_back();
    }
  }
  bool Key(std::string key) {
    open_.back().key = std::move(key);
    return true;
  }

 private:
  struct OpenValue {
    DocumentNode* node;  // stays valid: only the innermost open value grows
    std::optional<std::string> key;
  };

  DocumentNode* Slot() {
    if (++count_ > kDocumentNodesMax) {
      refused_ = fmt::format("more than {} values", kDocumentNodesMax);
      return nullptr;
    }
    if (open_.empty()) {
      return &documents_.back();
    }
    OpenValue& parent = open_.back();
    if (parent.node->is_list()) {
      return &parent.node->items.emplace_back();
    }
    DocumentField& field = parent.node->fields.emplace_back();
    field.key = *std::move(parent.key);
    parent.key.reset();
    return &field.value;
  }

  std::vector<DocumentNode> documents_;
  std::vector<OpenValue> open_;
  size_t count_ = 0;
  std::string refused_;
};

class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonEvents(DocumentBuilder& builder) : builder_(builder) {}

  bool null() override { return builder_.Scalar(DocumentNode::Kind::kNull, "", 0); }
  bool boolean(bool value) override { return Number(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Number(text); }
  bool string(string_t& value) override {
    return builder_.Scalar(DocumentNode::Kind::kText, std::move(value), 0);
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return builder_.Open(DocumentNode::Kind::kMap, 0); }
  bool end_object() override {
    builder_.Close();
    return true;
  }
  bool start_array(size_t) override { return builder_.Open(DocumentNode::Kind::kList, 0); }
  bool end_array() override {
    builder_.Close();
    return true;
  }
  bool key(string_t& value) override { return builder_.Key(std::move(value)); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    what_ = error.what();
    return false;
  }

  size_t position() const { return position_; }
  const std::string& what() const { return what_; }

 private:
  bool Number(std::string text) {
    return builder_.Scalar(DocumentNode::Kind::kNumber, std::move(text), 0);
  }

  DocumentBuilder& builder_;
  size_t position_ = 0;
  std::string what_;
};

// Leaves yaml-cpp's parser; never leaves this file.
class YamlStopped : public std::runtime_error {
 public:
  YamlStopped(const YAML::Mark& mark, std::string_view what)
      : std::runtime_error(fmt::format("line {}: {}", mark.line + 1, what)) {}
};

class YamlEvents final : public YAML::EventHandler {
 public:
  explicit YamlEvents(DocumentBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark&) override { builder_.Begin(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Check(mark, anchor, builder_.Scalar(DocumentNode::Kind::kNull, "", Line(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlStopped(mark, "aliases (*name) are not supported: write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    const bool null = !quoted && (value == "~" || value == "null" || value.empty());
    const bool number =
        !quoted &&
        (value == "true" || value == "false" ||
         (!value.empty() && value.find_first_not_of("0123456789.-") == std::string::npos));
    const auto kind = null     ? DocumentNode::Kind::kNull
                      : number ? DocumentNode::Kind::kNumber
                               : DocumentNode::Kind::kText;
    Check(mark, anchor, builder_.Scalar(kind, value, Line(mark)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Check(mark, anchor, builder_.Open(DocumentNode::Kind::kList, Line(mark)));
  }
  void OnSequenceEnd() override { builder_.Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Check(mark, anchor, builder_.Open(DocumentNode::Kind::kMap, Line(mark)));
  }
  void OnMapEnd() override { builder_.Close(); }

 private:
  static uint32_t Line(const YAML::Mark& mark) { return static_cast<uint32_t>(mark.line + 1); }
  void Check(const YAML::Mark& mark, YAML::anchor_t anchor, bool taken) const {
    if (anchor != YAML::NullAnchor) {
      throw YamlStopped(mark, "anchors (&name) are not supported: write the value out");
    }
    if (!taken) {
      throw YamlStopped(mark, builder_.refused());
    }
  }

  DocumentBuilder& builder_;
};

absl::StatusOr<std::vector<DocumentNode>> ReadJson(std::string_view text) {
  DocumentBuilder builder;
  builder.Begin();
  JsonEvents events(builder);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &events)) {
    return builder.TakeDocuments();
  }
  if (!builder.refused().empty()) {
    return absl::InvalidArgumentError(fmt::format("line 1: {}", builder.refused()));
  }
  const size_t until = std::min(events.position(), text.size());
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(until), '\n');
  const std::string& what = events.what();
  const size_t cause = what.find("syntax error");
  return absl::InvalidArgumentError(
      fmt::format("line {}: no valid JSON: {}", line + 1,
                  Excerpt(cause == std::string::npos ? what : what.substr(cause))));
}

absl::StatusOr<std::vector<DocumentNode>> ReadYaml(std::string_view text) {
  if (text.size() > kYamlTextMax) {
    return absl::InvalidArgumentError(fmt::format(
        "line 1: {} bytes of YAML are more than {}: split the file", text.size(), kYamlTextMax));
  }
  DocumentBuilder builder;
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    YamlEvents events(builder);
    // A document begins on a line of its own. At a comma that belongs to nothing the library tells
    // one empty document after the other and never moves on.
    const auto documents_max = std::count(text.begin(), text.end(), '\n') + 1;
    for (std::ptrdiff_t documents = 0; parser.HandleNextDocument(events); ++documents) {
      if (documents >= documents_max) {
        return absl::InvalidArgumentError(
            "line 1: no valid YAML: there are more documents than lines");
      }
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("line {}: no valid YAML: {}", error.mark.line + 1, Excerpt(error.msg)));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return builder.TakeDocuments();
}

}  // namespace

const DocumentNode* DocumentNode::Find(std::string_view key) const {
  for (const DocumentField& field : fields) {
    if (field.key == key) {
      return &field.value;
    }
  }
  return nullptr;
}

std::string_view DocumentNode::Text(std::string_view key) const {
  const DocumentNode* found = Find(key);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

std::span<const DocumentNode> DocumentNode::ItemsOrSelf() const {
  return is_list() ? std::span<const DocumentNode>(items) : std::span<const DocumentNode>(this, 1);
}

const std::vector<DocumentNode>& DocumentNode::Items(std::string_view key) const {
  static const std::vector<DocumentNode> none;
  const DocumentNode* found = Find(key);
  return found == nullptr ? none : found->items;
}

absl::StatusOr<std::vector<DocumentNode>> ReadDocuments(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) {
    return ReadJson(text);
  }
  return ReadYaml(text);
}

}  // namespace asterism::topology
