// File: base/frame_seal.h
//
// Seals frames that go through somebody who is to carry them and no more: both ends share a key,
// and who has none can neither change a frame, nor make one up, nor pass it off as another one.
//
//   FrameSeal seal(NewSealKey(), session, SealDirection::kUp);
//   std::string proof = seal.Of(number, frame);
//   if (seal.Proves(number, frame, proof)) ...
//
// The first 16 bytes of HMAC-SHA256 (RFC 2104, FIPS 180-4) over one byte for the direction, session
// and number as 64 bits with the highest byte first, and the frame. Numbers are the caller's: who
// takes each number once, in order, sees each frame once, in order, and notices a gap.
//
// Thread-safety: const. Cost: about 1 us and 3 ns a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace asterism::base {

inline constexpr size_t kSealKeyBytes = 32;
inline constexpr size_t kSealBytes = 16;

// From the operating system's random numbers.
std::string NewSealKey();
// The same, as a number that nobody can guess; never 0.
uint64_t NewSealSession();

enum class SealDirection : uint8_t { kUp = 1, kDown = 2 };

class FrameSeal {
 public:
  FrameSeal(std::string key, uint64_t session, SealDirection direction);

  std::string Of(uint64_t number, std::string_view frame) const;
  // Takes the same time whatever is wrong.
  bool Proves(uint64_t number, std::string_view frame, std::string_view seal) const;

 private:
  std::string key_;
  uint64_t session_;
  SealDirection direction_;
};

}  // namespace asterism::base
