// File: scheduler/extender/json_text.h
//
// Appends JSON to a string: the one escape routine of the extender. Answers are flat and their
// shape is fixed, so there is nothing else to a writer.
//
//   AppendJsonText(name, answer);    // "gpu-0417", with the quotes
//
// Bytes that are not valid in a JSON text are escaped; invalid UTF-8 cannot arrive, since every
// foreign text came through a parser that checks it.
//
// Thread-safety: pure. Cost: about 1 ns a byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace asterism::scheduler::extender {

void AppendJsonText(std::string_view text, std::string& out);
void AppendJsonNumber(int64_t number, std::string& out);

}  // namespace asterism::scheduler::extender
