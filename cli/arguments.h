// File: cli/arguments.h
//
// What was typed: verb, names and options, in kubectl's manner (`-n x`, `-nx`, `--namespace x`,
// `--namespace=x`, `-Ao json`; options may stand before and behind names; `--` ends them). One
// table describes verbs and options; parsing, help and completion read it.
//
//   absl::StatusOr<Arguments> arguments = ReadArguments({"explain", "llama", "-n", "research"});
//
// Errors are one line with the way out; the caller ends with kExitUsage.
//
// Thread-safety: pure. Cost: microseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asterism::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotNow = 3;
inline constexpr int kExitNever = 4;
// Of `doctor`.
inline constexpr int kExitFindings = 1;
inline constexpr int kExitUnreadable = 2;

enum class Verb { kTopology, kDoctor, kExplain, kQueue, kTop, kPlan, kVersion, kCompletion, kHelp };
enum class OutputFormat {
  kText,
  kWide,
  kJson,
  kYaml,
  kDot,
  kSvg,
  // plan
  kMegatron,
  kBridge,
  kDeepSpeed,
  kTorchTitan,
  kAccelerate,
  kTorchrun
};

struct Arguments {
  Verb verb = Verb::kHelp;
  bool help = false;  // --help, or the verb help
  std::vector<std::string> names;

  std::string namespace_name;  // empty: that of the context
  bool all_namespaces = false;
  std::string context;
  std::string kubeconfig;
  OutputFormat output = OutputFormat::kText;

  std::string level;                  // topology
  std::string job_file;               // plan
  std::string cluster_file;           // plan
  std::string config_file;            // plan; empty: none
  bool client_only = false;           // version
  std::string server;                 // of the controller; empty: through the API server
  std::string certificate_authority;  // file, for an https:// server
  std::string controller_namespace = "asterism-system";
};

enum class Option {
  kNamespace,
  kAllNamespaces,
  kContext,
  kKubeconfig,
  kOutput,
  kLevel,
  kClient,
  kServer,
  kCertificateAuthority,
  kControllerNamespace,
  kFilename,
  kCluster,
  kConfig,
  kHelp
};

struct OptionDescription {
  Option option;
  std::string_view name;   // without dashes
  char letter;             // 0: none
  std::string_view value;  // of what stands behind it, "NAME"; empty: a switch
  std::string_view help;
};

struct VerbDescription {
  Verb verb;
  std::string_view name;
  std::string_view operand;  // "JOB", "[QUEUE]", "[FILE...]" or empty
  std::string_view summary;
  std::vector<Option> options;  // besides kHelp
};

const std::vector<VerbDescription>& AllVerbs();
// Errors name the verbs that are near.
absl::StatusOr<const VerbDescription*> FindVerb(std::string_view name);
const VerbDescription& DescriptionOf(Verb verb);
const OptionDescription& DescriptionOf(Option option);

absl::StatusOr<Arguments> ReadArguments(std::span<const std::string> words);

}  // namespace asterism::cli
