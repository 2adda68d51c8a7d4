// Reads any text as two kubeconfig files, cut at the first zero byte. No file is read: the fuzzer
// would have to guess its name.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "kube/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::kube;
  static const asterism::base::SimClock clock;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  const auto config = ParseKubeconfig(
      clock,
      {{"/nonexistent/a", text.substr(0, cut)},
       {"/nonexistent/b", cut == std::string::npos ? std::string() : text.substr(cut + 1)}},
      "");
  CHECK_THAT(!config.ok() || config->credentials != nullptr, "a configuration without credentials");
  return 0;
}
