// File: kube/json_reader.h
//
// Reads the fields of a parsed JSON object; inside kube/ only. A field of the wrong type is noted
// once and reads as absent, so that a decoder is a flat list of reads and one check at the end.
//
//   JsonReader reader;
//   ASSIGN_OR_RETURN(const JsonObject root, reader.Parse(text));
//   meta.name = reader.Text(root, "name");
//   RETURN_IF_ERROR(reader.status());   // "field name is not a string"
//
// Thread-safety: none; the parsed text lives as long as the reader. Cost: simdjson DOM, about
// 1 ns a byte; the parser's memory is kept per thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "simdjson.h"

namespace asterism::kube {

using JsonObject = simdjson::dom::object;
using JsonElement = simdjson::dom::element;

class JsonReader {
 public:
  JsonReader();
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // `text` must be one JSON object. One parse a reader.
  absl::StatusOr<JsonObject> Parse(std::string_view text);

  std::string Text(const JsonObject& object, std::string_view key);
  int64_t Integer(const JsonObject& object, std::string_view key);
  bool Flag(const JsonObject& object, std::string_view key);
  // RFC 3339; `absent` when the field is missing or null.
  absl::Time Time(const JsonObject& object, std::string_view key, absl::Time absent);
  // Calls visit when the field is an object.
  void Child(const JsonObject& object, std::string_view key,
             absl::FunctionRef<void(const JsonObject&)> visit);
  // Calls visit for each element of an array of objects.
  void Each(const JsonObject& object, std::string_view key,
            absl::FunctionRef<void(const JsonObject&)> visit);
  // Calls visit(key, text) for each member of a map of strings (numbers as their digits).
  void EachPair(const JsonObject& object, std::string_view key,
                absl::FunctionRef<void(std::string_view, std::string_view)> visit);
  // Calls visit for each element of an array of strings.
  void EachText(const JsonObject& object, std::string_view key,
                absl::FunctionRef<void(std::string_view)> visit);

  void Complain(std::string_view key, std::string_view wanted);
  const absl::Status& status() const { return status_; }

 private:
  // False when the field is missing or null.
  static bool Get(const JsonObject& object, std::string_view key, JsonElement& element);

  std::unique_ptr<simdjson::dom::parser> parser_;
  absl::Status status_;
};

}  // namespace asterism::kube
