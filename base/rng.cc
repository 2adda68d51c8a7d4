#include "base/rng.h"

#include <sys/random.h>

#include "base/check.h"
#include "base/hash.h"

namespace asterism::base {

Rng::Rng(uint64_t seed) : seed_(seed), engine_(seed) {}

uint64_t Rng::Below(uint64_t bound) {
  CHECK_THAT(bound > 0, "Rng::Below needs a positive bound");
  // Rejects the tail that would favour small values.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t draw = engine_();
  while (draw >= limit) {
    draw = engine_();
  }
  return draw % bound;
}

double Rng::Uniform() {
  return static_cast<double>(engine_() >> 11) * 0x1.0p-53;
}

std::string Rng::Name(size_t length) {
  static constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string name(length, '\0');
  for (char& letter : name) {
    letter = kAlphabet[Below(kAlphabet.size())];
  }
  return name;
}

Rng Rng::Fork(std::string_view name) const {
  // The finaliser of splitmix64: without it Fork("a").Fork("a") would be the first stream again.
  uint64_t mixed = seed_ ^ Fnv1a(name);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return Rng(mixed ^ (mixed >> 31));
}

uint64_t Rng::SystemSeed() {
  uint64_t seed = 0;
  CHECK_THAT(getrandom(&seed, sizeof(seed), 0) == sizeof(seed), "getrandom failed");
  return seed;
}

}  // namespace asterism::base
