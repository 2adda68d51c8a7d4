// Reads any bytes as a text about a cluster, and examines what was understood.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "topology/import/doctor.h"
#include "topology/import/import_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asterism::topology;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Diagnosis diagnosis = Examine({{"text", std::string(text)}});
  CHECK_THAT(diagnosis.texts.size() == 1, "a text was lost");
  CHECK_THAT(diagnosis.unreadable == !diagnosis.texts[0].error.empty(),
             "an error without a reason");
  (void)DiagnosisJson(diagnosis).dump(-1, ' ', false,
                                      nlohmann::ordered_json::error_handler_t::replace);
  return 0;
}
