#include "controller/yaml_tree.h"

#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "fmt/format.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace asterism::controller {
namespace {

// Leaves yaml-cpp's parser; never leaves this file.
class YamlRefused : public std::runtime_error {
 public:
  YamlRefused(const YAML::Mark& mark, std::string_view what)
      : std::runtime_error(
            fmt::format("line {}, column {}: {}", mark.line + 1, mark.column + 1, what)) {}
};

class YamlTreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Put(mark, anchor, "", YamlNode::Kind::kNull);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlRefused(mark, "aliases (*name) are not supported: write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode& node = Put(mark, anchor, tag, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    CloseKey(mark, node);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, Put(mark, anchor, tag, YamlNode::Kind::kList));
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, Put(mark, anchor, tag, YamlNode::Kind::kMap));
  }
  void OnMapEnd() override { Close(); }

 private:
  // A collection that is being read. In a map a key is read first, then its value.
  struct OpenNode {
    YamlNode* node;
    std::optional<std::string> key;
  };

  YamlNode& Put(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag,
                YamlNode::Kind kind) {
    if (anchor != YAML::NullAnchor) {
      throw YamlRefused(mark, "anchors (&name) are not supported: write the value out");
    }
    // "?" is a plain scalar or collection, "!" a quoted scalar.
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw YamlRefused(mark, "tags (!name) are not supported: remove the tag");
    }
    if (++node_count_ > kYamlNodesMax) {
      throw YamlRefused(mark, fmt::format("more than {} values: shorten it", kYamlNodesMax));
    }
    YamlNode& node = Slot(mark, kind);
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  YamlNode& Slot(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (open_.empty()) {
      return root_;
    }
    OpenNode& parent = open_.back();
    if (parent.node->kind == YamlNode::Kind::kList) {
      return parent.node->items.emplace_back();
    }
    if (!parent.key.has_value()) {
      if (kind != YamlNode::Kind::kScalar) {
        throw YamlRefused(mark, "a key must be a word");
      }
      key_ = YamlNode();
      return key_;
    }
    YamlNode& value = parent.node->fields.emplace_back(YamlField{*std::move(parent.key), {}}).value;
    parent.key.reset();
    return value;
  }

  // When `node` was a key, remembers it for the value that follows.
  void CloseKey(const YAML::Mark& mark, YamlNode& node) {
    if (&node != &key_) {
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node->Find(node.text) != nullptr) {
      throw YamlRefused(mark, fmt::format("the key \"{}\" is there twice: remove one", node.text));
    }
    parent.key = std::move(node.text);
  }

  void Open(const YAML::Mark& mark, YamlNode& node) {
    if (open_.size() >= kYamlDepthMax) {
      throw YamlRefused(mark, fmt::format("nested deeper than {} levels", kYamlDepthMax));
    }
    open_.push_back({&node, std::nullopt});
  }
  void Close() { open_.pop_back(); }

  YamlNode root_;
  YamlNode key_;
  // Pointers stay valid: only the innermost open node grows.
  std::vector<OpenNode> open_;
  size_t node_count_ = 0;
};

// Ends after the first document; a second one is an error.
class RefuseSecondDocument final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    throw YamlRefused(mark, "a second document starts here: keep one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const auto& [name, value] : fields) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

absl::StatusOr<YamlNode> ParseYamlTree(std::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes are more than the limit of {}", text.size(), kYamlBytesMax));
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    YamlTreeBuilder builder;
    if (parser.HandleNextDocument(builder)) {
      RefuseSecondDocument refuse;
      parser.HandleNextDocument(refuse);
    }
    return builder.TakeRoot();
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("line {}, column {}: not valid YAML: {}",
                                                  error.mark.line + 1, error.mark.column + 1,
                                                  error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

std::string QuoteYaml(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

}  // namespace asterism::controller
