// File: planner/setting_reader.h
//
// Launch files and command lines as named values: what planner/setting.h writes, and what a user
// wrote himself. Nested names are joined with points.
//
//   FieldTable fields = ReadArguments({"--tensor-model-parallel-size", "8"},
//   {"sequence-parallel"}); ASSIGN_OR_RETURN(const FieldTable fields, ParseNestedJson(text));
//
// Arguments: `--name value`, `--name=value`, `--name a b`; a name in `switches` takes no value; the
// last of a name wins, as argparse has it. Names are kept without dashes in front. Words that
// belong to no name are left out. Overrides: `name=value`.
// YAML: maps of maps with scalars and lists on one line. TOML: tables of scalars and lists on one
// line. Lists are kept as their text. Beyond that is an error with the line.
//
// Bounds: those of planner/field_table.h. Thread-safety: pure. Cost: O(fields x values).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/field_table.h"

namespace asterism::planner {

FieldTable ReadArguments(std::span<const std::string> words,
                         std::span<const std::string_view> switches);
FieldTable ReadOverrides(std::span<const std::string> words);

absl::StatusOr<FieldTable> ParseNestedJson(std::string_view text);
absl::StatusOr<FieldTable> ParseNestedYaml(std::string_view text);
absl::StatusOr<FieldTable> ParseToml(std::string_view text);

}  // namespace asterism::planner
