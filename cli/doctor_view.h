// File: cli/doctor_view.h
//
// A diagnosis for people: what was read, then each finding with its objects, the evidence, what it
// costs and what to do. Findings of one kind share the words.
//
//   Show(DoctorLines(diagnosis, {.width = 80}));
//
// Thread-safety: pure. Cost: linear in the findings.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/styled_text.h"
#include "topology/import/doctor.h"

namespace asterism::cli {

struct DoctorViewOptions {
  size_t width = 0;     // columns; 0: no limit
  bool wide = false;    // every finding; else at most kFindingsShown of one kind
  bool sources = true;  // names the text of each finding, where there are several
};

inline constexpr size_t kFindingsShown = 12;

std::vector<Line> DoctorLines(const topology::Diagnosis& diagnosis,
                              const DoctorViewOptions& options);

}  // namespace asterism::cli
