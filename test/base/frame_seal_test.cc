#include "base/frame_seal.h"

#include "gtest/gtest.h"

namespace asterism::base {
namespace {

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char each : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text.push_back(kDigits[static_cast<unsigned char>(each) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(each) & 15]);
  }
  return text;
}

// Worked out apart, with Python: hmac.new(bytes(range(32)), bytes([2]) + struct.pack(">QQ", 7, 3)
// + b"frame", "sha256").digest()[:16].hex()
TEST(FrameSeal, IsHmacSha256OfDirectionSessionNumberAndFrame) {
  std::string key;
  for (int i = 0; i < 32; ++i) {
    key.push_back(static_cast<char>(i));
  }
  const FrameSeal seal(key, 7, SealDirection::kDown);
  EXPECT_EQ(Hex(seal.Of(3, "frame")), "1a315805126477a713b0d6a8cbd18f6e");
  EXPECT_TRUE(seal.Proves(3, "frame", seal.Of(3, "frame")));
}

TEST(FrameSeal, ProvesNothingElse) {
  const std::string key = NewSealKey();
  const FrameSeal seal(key, 7, SealDirection::kUp);
  const std::string proof = seal.Of(3, "frame");
  EXPECT_FALSE(seal.Proves(4, "frame", proof));
  EXPECT_FALSE(seal.Proves(3, "Frame", proof));
  EXPECT_FALSE(seal.Proves(3, "frame", proof.substr(1)));
  EXPECT_FALSE(seal.Proves(3, "frame", ""));
  EXPECT_FALSE(FrameSeal(key, 7, SealDirection::kDown).Proves(3, "frame", proof));
  EXPECT_FALSE(FrameSeal(key, 8, SealDirection::kUp).Proves(3, "frame", proof));
  EXPECT_FALSE(FrameSeal(NewSealKey(), 7, SealDirection::kUp).Proves(3, "frame", proof));
}

TEST(FrameSeal, KeysAndSessionsAreNew) {
  EXPECT_EQ(NewSealKey().size(), kSealKeyBytes);
  EXPECT_NE(NewSealKey(), NewSealKey());
  EXPECT_NE(NewSealSession(), NewSealSession());
}

}  // namespace
}  // namespace asterism::base
