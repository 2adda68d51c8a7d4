#include "kube/json_split.h"

#include "base/status_macros.h"
#include "kube/json_reader.h"

namespace asterism::kube {
namespace {

// Position in JSON text. Every Take... returns false when the text does not have that shape.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  void SkipSpace() {
    while (position_ < text_.size() && IsSpace(text_[position_])) {
      ++position_;
    }
  }
  bool Take(char wanted) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != wanted) {
      return false;
    }
    ++position_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return position_ == text_.size();
  }

  // A string; `inside` is what stands between the quotes.
  bool TakeString(std::string_view& inside) {
    if (!Take('"')) {
      return false;
    }
    const size_t begin = position_;
    if (!SkipString()) {
      return false;
    }
    inside = text_.substr(begin, position_ - begin - 1);
    return true;
  }

  // Any value, brackets balanced.
  bool TakeValue(std::string_view& value) {
    SkipSpace();
    const size_t begin = position_;
    size_t depth = 0;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '"') {
        ++position_;
        if (!SkipString()) {
          return false;
        }
      } else if (c == '{' || c == '[') {
        ++depth;
        ++position_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) {
          break;
        }
        --depth;
        ++position_;
      } else if (depth == 0 && (c == ',' || IsSpace(c))) {
        break;
      } else {
        ++position_;
        continue;
      }
      if (depth == 0) {
        break;
      }
    }
    value = text_.substr(begin, position_ - begin);
    return depth == 0 && !value.empty();
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  // From behind the opening quote to behind the closing one.
  bool SkipString() {
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c == '"') {
        return true;
      }
      if (c == '\\') {
        ++position_;
      }
    }
    return false;
  }

  std::string_view text_;
  size_t position_ = 0;
};

absl::Status BadOutline(std::string_view what) {
  return absl::InvalidArgumentError("not valid JSON: " + std::string(what));
}

}  // namespace

absl::Status SplitJsonObject(std::string_view text,
                             absl::FunctionRef<void(std::string_view, std::string_view)> visit) {
  JsonScanner scanner(text);
  if (!scanner.Take('{')) {
    return BadOutline("not an object");
  }
  if (scanner.Take('}')) {
    return scanner.AtEnd() ? absl::OkStatus() : BadOutline("text behind the object");
  }
  do {
    std::string_view key;
    std::string_view value;
    if (!scanner.TakeString(key) || !scanner.Take(':') || !scanner.TakeValue(value)) {
      return BadOutline("broken member of an object");
    }
    visit(key, value);
  } while (scanner.Take(','));
  return scanner.Take('}') && scanner.AtEnd() ? absl::OkStatus()
                                              : BadOutline("object does not end");
}

absl::Status SplitJsonArray(std::string_view text,
                            absl::FunctionRef<void(std::string_view)> visit) {
  JsonScanner scanner(text);
  if (!scanner.Take('[')) {
    return BadOutline("not a list");
  }
  if (scanner.Take(']')) {
    return scanner.AtEnd() ? absl::OkStatus() : BadOutline("text behind the list");
  }
  do {
    std::string_view value;
    if (!scanner.TakeValue(value)) {
      return BadOutline("broken element of a list");
    }
    visit(value);
  } while (scanner.Take(','));
  return scanner.Take(']') && scanner.AtEnd() ? absl::OkStatus() : BadOutline("list does not end");
}

absl::StatusOr<JsonList> SplitJsonList(std::string_view text) {
  JsonList list;
  std::string_view metadata;
  std::string_view items;
  RETURN_IF_ERROR(SplitJsonObject(text, [&](std::string_view key, std::string_view value) {
    if (key == "metadata") {
      metadata = value;
    } else if (key == "items") {
      items = value;
    }
  }));
  if (!items.empty() && items != "null") {
    RETURN_IF_ERROR(
        SplitJsonArray(items, [&](std::string_view item) { list.items.push_back(item); }));
  }
  if (!metadata.empty()) {
    JsonReader reader;
    ASSIGN_OR_RETURN(const JsonObject object, reader.Parse(metadata));
    list.resource_version = reader.Text(object, "resourceVersion");
    list.continue_token = reader.Text(object, "continue");
    RETURN_IF_ERROR(reader.status());
  }
  return list;
}

}  // namespace asterism::kube
