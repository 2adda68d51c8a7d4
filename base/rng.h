// File: base/rng.h
//
// Seeded random numbers that are the same with every standard library: the engine is the
// standardised mt19937_64, the distributions are ours.
//
//   Rng rng(seed);
//   Rng jitter = rng.Fork("watch-jitter");   // a stream of its own: draws here shift nobody else
//
// Thread-safety: none. Cost: some nanoseconds a draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace asterism::base {

class Rng {
 public:
  explicit Rng(uint64_t seed);

  uint64_t Next() { return engine_(); }
  // Uniform in [0, bound). bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1).
  double Uniform();
  bool Chance(double probability) { return Uniform() < probability; }
  // Lower-case letters and digits, for names that must not collide.
  std::string Name(size_t length);

  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[Below(i)]);
    }
  }

  // A stream that depends on this one's seed and `name` only, not on what was drawn so far.
  Rng Fork(std::string_view name) const;

  // A seed from the operating system; for programs, never for tests.
  static uint64_t SystemSeed();

 private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace asterism::base
