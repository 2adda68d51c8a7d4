#include "cli/styled_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "fmt/format.h"

namespace asterism::cli {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: no valid UTF-8 here
};

CodePoint FirstOf(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) {
    return {};
  }
  uint32_t value = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return {};
    }
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[bytes] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
    return {};
  }
  return {value, bytes};
}

bool Between(uint32_t value, uint32_t first, uint32_t last) {
  return value >= first && value <= last;
}

// Controls, and what turns the direction of text or has no width: a name could pose as another.
bool IsHidden(uint32_t value) {
  return value < 0x20 || Between(value, 0x7f, 0x9f) || value == 0xad || value == 0x61c ||
         value == 0x180e || Between(value, 0x200b, 0x200f) || Between(value, 0x2028, 0x202e) ||
         Between(value, 0x2060, 0x206f) || value == 0xfeff || Between(value, 0xfff9, 0xfffb) ||
         Between(value, 0xe0000, 0xe007f);
}

size_t ColumnsOf(uint32_t value) {
  if (Between(value, 0x300, 0x36f) || Between(value, 0x20d0, 0x20ff) ||
      Between(value, 0xfe00, 0xfe0f)) {
    return 0;
  }
  // The wide blocks of Unicode's East Asian Width, in short.
  const bool wide = Between(value, 0x1100, 0x115f) || Between(value, 0x2e80, 0xa4cf) ||
                    Between(value, 0xac00, 0xd7a3) || Between(value, 0xf900, 0xfaff) ||
                    Between(value, 0xfe30, 0xfe6f) || Between(value, 0xff00, 0xff60) ||
                    Between(value, 0xffe0, 0xffe6) || Between(value, 0x1f300, 0x1faff) ||
                    Between(value, 0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

std::string EscapeOf(uint32_t value) {
  switch (value) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return value < 0x100 ? fmt::format("\\x{:02x}", value) : fmt::format("\\u{:04x}", value);
  }
}

std::string_view CodeOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kBold:
      return "\x1b[1m";
    case Tone::kFaint:
      return "\x1b[2m";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kWarn:
      return "\x1b[33m";
    case Tone::kBad:
      return "\x1b[31m";
  }
  return "";
}

// The longest head of `text` that takes at most `width` columns, in bytes.
size_t HeadBytes(std::string_view text, size_t width) {
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = FirstOf(text.substr(at));
    const size_t columns = point.bytes == 0 ? 1 : ColumnsOf(point.value);
    if (used + columns > width) {
      break;
    }
    used += columns;
    at += std::max<size_t>(point.bytes, 1);
  }
  return at;
}

std::vector<Span> CutSpans(const std::vector<Span>& spans, size_t width) {
  std::string whole;
  for (const Span& span : spans) {
    whole += span.text;
  }
  // Padding of the last column is no text that is missed.
  whole.erase(whole.find_last_not_of(' ') + 1);
  if (width == 0 || DisplayWidth(whole) <= width) {
    return spans;
  }
  const std::string dots(width > 3 ? 3 : 0, '.');
  size_t left = HeadBytes(whole, width - dots.size());
  std::vector<Span> cut;
  for (const Span& span : spans) {
    const size_t bytes = std::min(left, span.text.size());
    cut.push_back({span.text.substr(0, bytes), span.tone});
    left -= bytes;
  }
  cut.push_back({dots, Tone::kFaint});
  return cut;
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = FirstOf(text);
    if (point.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    out += IsHidden(point.value) ? EscapeOf(point.value) : std::string(text.substr(0, point.bytes));
    text.remove_prefix(point.bytes);
  }
  return out;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const CodePoint point = FirstOf(text);
    width += point.bytes == 0 ? 1 : ColumnsOf(point.value);
    text.remove_prefix(std::max<size_t>(point.bytes, 1));
  }
  return width;
}

std::string CutToWidth(std::string_view text, size_t width) {
  std::string out;
  for (const Span& span : CutSpans({{std::string(text), Tone::kPlain}}, width)) {
    out += span.text;
  }
  return out;
}

Line& Line::Add(std::string_view text, Tone tone) {
  if (!text.empty()) {
    spans_.push_back({Escaped(text), tone});
  }
  return *this;
}

Line& Line::AddSpaces(size_t count) {
  if (count > 0) {
    spans_.push_back({std::string(count, ' '), Tone::kPlain});
  }
  return *this;
}

std::string Print(const std::vector<Line>& lines, const Paper& paper) {
  std::string out;
  for (const Line& line : lines) {
    const size_t begin = out.size();
    for (const Span& span : CutSpans(line.spans(), paper.width)) {
      const std::string_view code = paper.colour ? CodeOf(span.tone) : "";
      if (code.empty() || span.text.empty()) {
        out += span.text;
      } else {
        out += code;
        out += span.text;
        out += "\x1b[0m";
      }
    }
    while (out.size() > begin && out.back() == ' ') {
      out.pop_back();
    }
    out += '\n';
  }
  return out;
}

void AddWrapped(std::string_view label, std::string_view text, Tone tone, size_t width,
                std::vector<Line>& lines) {
  const std::string escaped = Escaped(text);
  const size_t indent = DisplayWidth(Escaped(label));
  // Too narrow to wrap sensibly: one line, which Print cuts.
  const size_t room = width > indent + 20 ? width - indent : 0;
  std::string_view rest = escaped;
  bool first = true;
  do {
    size_t head = rest.size();
    if (room > 0 && DisplayWidth(rest) > room) {
      const size_t fits = HeadBytes(rest, room);
      const size_t space = rest.rfind(' ', fits);
      head = space == std::string_view::npos || space == 0 ? fits : space;
    }
    Line& line = lines.emplace_back();
    if (first) {
      line.Add(label);
    } else {
      line.AddSpaces(indent);
    }
    line.Add(rest.substr(0, head), tone);
    rest.remove_prefix(head);
    while (rest.starts_with(' ')) {
      rest.remove_prefix(1);
    }
    first = false;
  } while (!rest.empty());
}

}  // namespace asterism::cli
