#include "topology/import/xml_tree.h"

#include <expat.h>

#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace asterism::topology {
namespace {

constexpr size_t kXmlTextMax = 1 << 16;

class XmlBuilder {
 public:
  XmlBuilder() : parser_(XML_ParserCreate("UTF-8"), &XML_ParserFree) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), &XmlBuilder::OnStart, &XmlBuilder::OnEnd);
    XML_SetCharacterDataHandler(parser_.get(), &XmlBuilder::OnText);
    XML_SetEntityDeclHandler(parser_.get(), &XmlBuilder::OnEntity);
  }

  absl::StatusOr<XmlElement> Read(std::string_view text) {
    // Dumps may begin with blank lines, which XML allows without a declaration only.
    constexpr size_t kPiece = size_t{1} << 20;
    do {
      const std::string_view piece = text.substr(0, kPiece);
      text.remove_prefix(piece.size());
      const XML_Status status = XML_Parse(parser_.get(), piece.data(),
                                          static_cast<int>(piece.size()), text.empty() ? 1 : 0);
      if (!refused_.empty() || status == XML_STATUS_ERROR) {
        const std::string why =
            refused_.empty() ? XML_ErrorString(XML_GetErrorCode(parser_.get())) : refused_;
        return absl::InvalidArgumentError(fmt::format("line {}: {}", Line(), why));
      }
    } while (!text.empty());
    return std::move(root_);
  }

 private:
  static XmlBuilder& Self(void* data) { return *static_cast<XmlBuilder*>(data); }
  uint32_t Line() const { return static_cast<uint32_t>(XML_GetCurrentLineNumber(parser_.get())); }

  void Refuse(std::string why) {
    if (refused_.empty()) {
      refused_ = std::move(why);
      XML_StopParser(parser_.get(), XML_FALSE);
    }
  }

  static void OnStart(void* data, const char* name, const char** attributes) {
    XmlBuilder& self = Self(data);
    if (++self.elements_ > kXmlElementsMax) {
      self.Refuse(fmt::format("more than {} elements", kXmlElementsMax));
      return;
    }
    if (self.open_.size() >= kXmlDepthMax) {
      self.Refuse(fmt::format("nested deeper than {} levels", kXmlDepthMax));
      return;
    }
    XmlElement& element =
        self.open_.empty() ? self.root_ : self.open_.back()->children.emplace_back();
    element.name = name;
    element.line = self.Line();
    for (size_t i = 0; attributes[i] != nullptr; i += 2) {
      element.attributes.emplace_back(attributes[i], attributes[i + 1]);
    }
    // Stays valid: only the innermost open element grows.
    self.open_.push_back(&element);
  }
  static void OnEnd(void* data, const char*) {
    if (!Self(data).open_.empty()) {
      Self(data).open_.pop_back();
    }
  }
  static void OnText(void* data, const char* text, int length) {
    XmlBuilder& self = Self(data);
    if (!self.open_.empty() && self.open_.back()->text.size() < kXmlTextMax) {
      self.open_.back()->text.append(text, static_cast<size_t>(length));
    }
  }
  static void OnEntity(void* data, const char*, int, const char*, int, const char*, const char*,
                       const char*, const char*) {
    Self(data).Refuse("entity declarations are not supported: write the values out");
  }

  std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser_;
  XmlElement root_;
  std::vector<XmlElement*> open_;
  size_t elements_ = 0;
  std::string refused_;
};

}  // namespace

std::string_view XmlElement::Attribute(std::string_view key) const {
  for (const auto& [name_of, value] : attributes) {
    if (name_of == key) {
      return value;
    }
  }
  return {};
}

absl::StatusOr<XmlElement> ReadXmlTree(std::string_view text) {
  const size_t begin = text.find('<');
  if (begin == std::string_view::npos) {
    return absl::InvalidArgumentError("line 1: no XML element");
  }
  if (text.substr(begin).starts_with("<?xml")) {
    text.remove_prefix(begin);
  }
  return XmlBuilder().Read(text);
}

}  // namespace asterism::topology
