#include "base/frame_seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace asterism::base {
namespace {

void AppendBigEndian(uint64_t value, std::string& text) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(value >> shift));
  }
}

// Without random numbers no key is one.
void FillRandom(void* target, size_t size) {
  if (RAND_bytes(static_cast<unsigned char*>(target), static_cast<int>(size)) != 1) {
    std::abort();
  }
}

}  // namespace

std::string NewSealKey() {
  std::string key(kSealKeyBytes, '\0');
  FillRandom(key.data(), key.size());
  return key;
}

uint64_t NewSealSession() {
  uint64_t session = 0;
  while (session == 0) {
    FillRandom(&session, sizeof(session));
  }
  return session;
}

FrameSeal::FrameSeal(std::string key, uint64_t session, SealDirection direction)
    : key_(std::move(key)), session_(session), direction_(direction) {}

std::string FrameSeal::Of(uint64_t number, std::string_view frame) const {
  std::string text;
  text.reserve(17 + frame.size());
  text.push_back(static_cast<char>(direction_));
  AppendBigEndian(session_, text);
  AppendBigEndian(number, text);
  text.append(frame);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &size) == nullptr) {
    std::abort();  // no memory
  }
  return {reinterpret_cast<const char*>(digest.data()), kSealBytes};
}

bool FrameSeal::Proves(uint64_t number, std::string_view frame, std::string_view seal) const {
  const std::string right = Of(number, frame);
  return seal.size() == right.size() && CRYPTO_memcmp(seal.data(), right.data(), seal.size()) == 0;
}

}  // namespace asterism::base
