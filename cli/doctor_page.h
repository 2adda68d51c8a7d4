// File: cli/doctor_page.h
//
// The controller's page /doctorz, which is a diagnosis as JSON (topology/import/doctor.h), as that
// diagnosis again.
//
//   ASSIGN_OR_RETURN(const DoctorPage page, ParseDoctorPage(body));
//   Show(DoctorLines(page.diagnosis, {.width = 80}));
//
// The page is foreign: a wrong type is an error that names the field. A kind of finding that this
// version does not know is left out and counted.
//
// Thread-safety: a value. Cost: linear in the page, at most 64 MiB.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "topology/import/doctor.h"

namespace asterism::cli {

struct DoctorPage {
  bool leading = false;
  topology::Diagnosis diagnosis;
  size_t unknown_findings = 0;
};

absl::StatusOr<DoctorPage> ParseDoctorPage(std::string_view json);

}  // namespace asterism::cli
