#include "controller/configuration_values.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/numbers.h"

namespace asterism::controller {

bool ExpectScalar(const YamlNode& node, std::string_view path, std::string_view values,
                  Complaints& complaints) {
  if (node.kind == YamlNode::Kind::kScalar) {
    return true;
  }
  complaints.Add(path, fmt::format("has a list or a map (line {})", node.line),
                 fmt::format("give {}", values));
  return false;
}

namespace {

// Seconds in [smallest, largest], whole ones or to the millisecond.
FieldValue NumberOfSeconds(Access<absl::Duration> access, double smallest, double largest,
                           bool whole) {
  const std::string unit = whole ? "whole seconds" : "seconds";
  const std::string values = fmt::format("{}, {} to {}", unit, smallest, largest);
  const std::string example = whole ? "30" : "30 or 0.5";
  return {values,
          [=](const YamlNode& node, std::string_view path, Configuration& configuration,
              Complaints& complaints) {
            if (!ExpectScalar(node, path, values, complaints)) {
              return;
            }
            double seconds = 0;
            if (node.quoted || !absl::SimpleAtod(node.text, &seconds) || !std::isfinite(seconds)) {
              complaints.Add(path, fmt::format("{} is not a number", Shown(node.text)),
                             fmt::format("write seconds without a unit, for example {}", example));
            } else if (seconds < smallest || seconds > largest) {
              complaints.Add(path, fmt::format("{} is out of range", node.text),
                             fmt::format("use {} to {} {}", smallest, largest, unit));
            } else if (whole && seconds != std::floor(seconds)) {
              complaints.Add(path, fmt::format("{} has a fraction", node.text),
                             fmt::format("use {}", values));
            } else {
              access(configuration) = absl::Milliseconds(std::llround(seconds * 1000));
            }
          },
          [=](const Configuration& configuration) {
            return fmt::format("{}", absl::ToDoubleSeconds(Peek(access, configuration)));
          },
          CopyOf(access)};
}

}  // namespace

FieldValue SecondsValue(Access<absl::Duration> access, double smallest, double largest) {
  return NumberOfSeconds(access, smallest, largest, /*whole=*/false);
}

FieldValue WholeSecondsValue(Access<absl::Duration> access, int smallest, int largest) {
  return NumberOfSeconds(access, smallest, largest, /*whole=*/true);
}

FieldValue WholeNumberValue(Access<int> access, int smallest, int largest) {
  const std::string values = fmt::format("whole number, {} to {}", smallest, largest);
  return {values,
          [=](const YamlNode& node, std::string_view path, Configuration& configuration,
              Complaints& complaints) {
            if (!ExpectScalar(node, path, values, complaints)) {
              return;
            }
            int number = 0;
            if (node.quoted || !absl::SimpleAtoi(node.text, &number) || number < smallest ||
                number > largest) {
              complaints.Add(path,
                             fmt::format("{} is not a number from {} to {}", Shown(node.text),
                                         smallest, largest),
                             fmt::format("use a whole number from {} to {}", smallest, largest));
            } else {
              access(configuration) = number;
            }
          },
          [=](const Configuration& configuration) {
            return fmt::format("{}", Peek(access, configuration));
          },
          CopyOf(access)};
}

FieldValue PortValue(Access<int> access) {
  return {"0 to 65535; 0 takes a free port",
          [=](const YamlNode& node, std::string_view path, Configuration& configuration,
              Complaints& complaints) {
            if (!ExpectScalar(node, path, "a port", complaints)) {
              return;
            }
            int port = 0;
            if (node.quoted || !absl::SimpleAtoi(node.text, &port) || port < 0 || port > 65535) {
              complaints.Add(path, fmt::format("{} is not a port", Shown(node.text)),
                             "use a whole number from 0 to 65535 (0 takes a free port)");
            } else {
              access(configuration) = port;
            }
          },
          [=](const Configuration& configuration) {
            return fmt::format("{}", Peek(access, configuration));
          },
          CopyOf(access)};
}

FieldValue SwitchValue(Access<bool> access) {
  return {"true or false",
          [=](const YamlNode& node, std::string_view path, Configuration& configuration,
              Complaints& complaints) {
            if (!ExpectScalar(node, path, "true or false", complaints)) {
              return;
            }
            if (node.quoted || (node.text != "true" && node.text != "false")) {
              complaints.Add(path, fmt::format("{} is not a yes or no", Shown(node.text)),
                             "write true or false, without quotes");
            } else {
              access(configuration) = node.text == "true";
            }
          },
          [=](const Configuration& configuration) {
            return std::string(Peek(access, configuration) ? "true" : "false");
          },
          CopyOf(access)};
}

FieldValue TextValue(Access<std::string> access, std::string_view values, TextCheck check) {
  return {
      std::string(values),
      [=](const YamlNode& node, std::string_view path, Configuration& configuration,
          Complaints& complaints) {
        if (!ExpectScalar(node, path, values, complaints)) {
          return;
        }
        if (const auto [problem, remedy] = check(node.text); !problem.empty()) {
          complaints.Add(path, problem, remedy);
        } else {
          access(configuration) = node.text;
        }
      },
      [=](const Configuration& configuration) { return QuoteYaml(Peek(access, configuration)); },
      CopyOf(access)};
}

int ReadChoice(const YamlNode& node, std::string_view path,
               const std::vector<std::string_view>& choices, std::string_view refused,
               std::string_view remedy, Complaints& complaints) {
  if (!ExpectScalar(node, path, fmt::format("{}", fmt::join(choices, " or ")), complaints)) {
    return -1;
  }
  if (node.text == refused) {
    complaints.Add(path, fmt::format("{} is not available in this version", refused), remedy);
    return -1;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (node.text == choices[i]) {
      return static_cast<int>(i);
    }
  }
  complaints.Add(path, fmt::format("{} is not known", Shown(node.text)),
                 fmt::format("use one of {} ({} is nearest)", fmt::join(choices, ", "),
                             NearestName(node.text, choices)));
  return -1;
}

}  // namespace asterism::controller
