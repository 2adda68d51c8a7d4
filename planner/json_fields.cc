#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "planner/field_table.h"
#include "planner/setting_reader.h"

namespace asterism::planner {
namespace {

// Strict JSON (RFC 8259). Of nested values only those of objects are kept, and only when asked for.
class JsonFieldReader {
 public:
  JsonFieldReader(std::string_view text, bool nested) : text_(text), nested_(nested) {}

  absl::StatusOr<std::vector<Field>> ReadDocument() {
    SkipSpace();
    if (!Take('{')) {
      return Wrong("the document must be an object: begin with {");
    }
    RETURN_IF_ERROR(ReadObject("", 1));
    SkipSpace();
    if (at_ != text_.size()) {
      return Wrong("text follows the object: remove it");
    }
    return std::move(fields_);
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(
        fmt::format("JSON, byte {}: {}", at_,
                    at_ >= text_.size() ? "the text ends too early: is the file cut off?" : what));
  }

  void SkipSpace() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }

  bool Take(char wanted) {
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return false;
  }

  absl::Status Expect(char wanted) {
    SkipSpace();
    return Take(wanted) ? absl::OkStatus() : Wrong(fmt::format("expected '{}'", wanted));
  }

  // Behind its '{'. `prefix` ends with a point where it is not empty.
  absl::Status ReadObject(const std::string& prefix, int depth) {
    SkipSpace();
    for (bool first = true; !Take('}'); first = false) {
      if (!first) {
        RETURN_IF_ERROR(Expect(','));
        SkipSpace();
      }
      Field field;
      ASSIGN_OR_RETURN(field.key, ReadText());
      field.key = prefix + field.key;
      RETURN_IF_ERROR(Expect(':'));
      SkipSpace();
      if (nested_ && depth < kFieldDepthMax && Take('{')) {
        RETURN_IF_ERROR(ReadObject(field.key + ".", depth + 1));
      } else {
        RETURN_IF_ERROR(ReadValue(field, depth));
        RETURN_IF_ERROR(Keep(std::move(field)));
      }
      SkipSpace();
    }
    return absl::OkStatus();
  }

  absl::Status Keep(Field field) {
    for (const Field& other : fields_) {
      if (other.key == field.key) {
        return Wrong(fmt::format("\"{}\" is set twice: keep one", field.key.substr(0, 64)));
      }
    }
    if (fields_.size() == kFieldsMax) {
      return Wrong(fmt::format("there are more than {} fields", kFieldsMax));
    }
    fields_.push_back(std::move(field));
    return absl::OkStatus();
  }

  absl::Status ReadValue(Field& field, int depth) {
    SkipSpace();
    if (at_ >= text_.size()) {
      return Wrong("");
    }
    const char first = text_[at_];
    if (first == '{' || first == '[') {
      field.kind = Field::Kind::kNested;
      return SkipNested(depth);
    }
    if (first == '"') {
      field.kind = Field::Kind::kText;
      ASSIGN_OR_RETURN(field.text, ReadText());
      return absl::OkStatus();
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        field.kind = word == "null" ? Field::Kind::kNull : Field::Kind::kBoolean;
        field.text = word;
        return absl::OkStatus();
      }
    }
    return ReadNumber(field);
  }

  absl::Status SkipNested(int depth) {
    if (depth >= kFieldDepthMax) {
      return Wrong(fmt::format("values are nested deeper than {}", kFieldDepthMax));
    }
    const bool object = text_[at_++] == '{';
    const char close = object ? '}' : ']';
    SkipSpace();
    for (bool first = true; !Take(close); first = false) {
      if (!first) {
        RETURN_IF_ERROR(Expect(','));
        SkipSpace();
      }
      if (object) {
        RETURN_IF_ERROR(ReadText().status());
        RETURN_IF_ERROR(Expect(':'));
      }
      Field ignored;
      RETURN_IF_ERROR(ReadValue(ignored, depth + 1));
      SkipSpace();
    }
    return absl::OkStatus();
  }

  bool TakeDigits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      ++at_;
    }
    return at_ > begin;
  }

  absl::Status ReadNumber(Field& field) {
    const size_t begin = at_;
    Take('-');
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const size_t digits = at_;
    if (!TakeDigits() || (zero && at_ - digits > 1)) {
      at_ = begin;
      return Wrong("expected a value");
    }
    if (Take('.') && !TakeDigits()) {
      return Wrong("a digit must follow the point");
    }
    if (Take('e') || Take('E')) {
      if (!Take('+')) {
        Take('-');
      }
      if (!TakeDigits()) {
        return Wrong("the exponent has no digit");
      }
    }
    field.kind = Field::Kind::kNumber;
    field.text = text_.substr(begin, at_ - begin);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadText() {
    if (!Take('"')) {
      return Wrong("expected a text in double quotes");
    }
    std::string read;
    while (at_ < text_.size()) {
      const char letter = text_[at_++];
      if (letter == '"') {
        return read;
      }
      if (static_cast<unsigned char>(letter) < 0x20) {
        --at_;
        return Wrong("a control character in a text: escape it");
      }
      if (letter != '\\') {
        read += letter;
        continue;
      }
      RETURN_IF_ERROR(ReadEscape(read));
    }
    return Wrong("");
  }

  // No name or value that the planner knows needs \u, so it stands for one '?'.
  absl::Status ReadEscape(std::string& read) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ >= text_.size()) {
      return Wrong("");
    }
    const char letter = text_[at_++];
    if (const size_t index = kEscapes.find(letter); index != std::string_view::npos) {
      read += kMeanings[index];
      return absl::OkStatus();
    }
    const std::string_view digits = text_.substr(at_, 4);
    if (letter != 'u' || digits.size() < 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      return Wrong("this escape does not exist");
    }
    at_ += 4;
    read += '?';
    return absl::OkStatus();
  }

  std::string_view text_;
  const bool nested_;
  size_t at_ = 0;
  std::vector<Field> fields_;
};

absl::StatusOr<FieldTable> ReadJson(std::string_view text, bool nested) {
  if (text.size() > kFieldBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("JSON: {} bytes are more than {}", text.size(), kFieldBytesMax));
  }
  ASSIGN_OR_RETURN(std::vector<Field> fields, JsonFieldReader(text, nested).ReadDocument());
  return FieldTable(std::move(fields));
}

}  // namespace

absl::StatusOr<FieldTable> ParseJsonFields(std::string_view text) {
  return ReadJson(text, false);
}

absl::StatusOr<FieldTable> ParseNestedJson(std::string_view text) {
  return ReadJson(text, true);
}

}  // namespace asterism::planner
