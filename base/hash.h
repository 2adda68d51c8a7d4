// File: base/hash.h
//
// FNV-1a, 64 bits: a hash that is the same in every process, for digests that are stored or
// compared between runs. Not for hash tables (absl::Hash is better) and not against an attacker.
//
//   uint64_t digest = Fnv1a("text");
//   digest = Fnv1a("more", digest);
//
// Thread-safety: pure. Cost: about 1 ns a byte.
#pragma once

#include <cstdint>
#include <string_view>

namespace asterism::base {

inline constexpr uint64_t kFnv1aSeed = 0xcbf29ce484222325;

constexpr uint64_t Fnv1a(std::string_view text, uint64_t hash = kFnv1aSeed) {
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace asterism::base
