// File: scheduler/amount_text.h
//
// Numbers as people read them, for reasons and messages.
//
//   Thousands(10248)            "10,248"
//   Counted(1, "GPU")           "1 GPU";  Counted(10248, "GPU") "10,248 GPUs"
//
// Thread-safety: pure. Cost: one small string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace asterism::scheduler {

std::string Thousands(int64_t number);
std::string Counted(int64_t number, std::string_view singular);

}  // namespace asterism::scheduler
