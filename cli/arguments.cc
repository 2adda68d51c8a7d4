#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "base/status_macros.h"
#include "cli/near_names.h"
#include "cli/styled_text.h"
#include "fmt/format.h"

namespace asterism::cli {
namespace {

constexpr std::array<OptionDescription, 14> kOptions = {{
    {Option::kNamespace, "namespace", 'n', "NAME", "namespace; default: that of the context"},
    {Option::kAllNamespaces, "all-namespaces", 'A', "", "all namespaces"},
    {Option::kContext, "context", 0, "NAME", "context of the kubeconfig; default: the current one"},
    {Option::kKubeconfig, "kubeconfig", 0, "FILE",
     "kubeconfig file; default: $KUBECONFIG, the pod's service account, ~/.kube/config"},
    {Option::kOutput, "output", 'o', "FORMAT",
     "json, yaml or wide; topology also dot and svg, plan svg and launch formats"},
    {Option::kLevel, "level", 0, "LEVEL", "list every domain down to this level"},
    {Option::kClient, "client", 0, "", "this program only; asks nobody"},
    {Option::kServer, "server", 's', "URL",
     "asterism-controller itself, https://HOST:PORT; default: $ASTERISM_SERVER, else through the "
     "API "
     "server"},
    {Option::kCertificateAuthority, "certificate-authority", 0, "FILE",
     "certificate authority of --server, ca.crt of Secret asterism-extender-tls"},
    {Option::kControllerNamespace, "controller-namespace", 0, "NAME",
     "where asterism-controller is installed; default: asterism-system"},
    {Option::kFilename, "filename", 'f', "FILE", "the TrainingJob"},
    {Option::kCluster, "cluster", 0, "FILE", "GPU and levels of the cluster (see below)"},
    {Option::kConfig, "config", 0, "FILE", "the config.json that huggingFaceConfigMap names"},
    {Option::kHelp, "help", 'h', "", "describe the verb"},
}};

const OptionDescription* FindOption(std::string_view name) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(),
                                  [name](const auto& each) { return each.name == name; });
  return found == kOptions.end() ? nullptr : &*found;
}

const OptionDescription* FindOption(char letter) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(), [letter](const auto& each) {
    return each.letter != 0 && each.letter == letter;
  });
  return found == kOptions.end() ? nullptr : &*found;
}

absl::Status Misuse(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

class Reader {
 public:
  explicit Reader(std::span<const std::string> words) : words_(words) {}

  absl::StatusOr<Arguments> Read() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (operands_only_ || !word.starts_with('-') || word == "-") {
        RETURN_IF_ERROR(TakeOperand(word));
      } else if (word == "--") {
        operands_only_ = true;
      } else if (word.starts_with("--")) {
        RETURN_IF_ERROR(TakeLong(std::string_view(word).substr(2)));
      } else {
        RETURN_IF_ERROR(TakeLetters(std::string_view(word).substr(1)));
      }
    }
    RETURN_IF_ERROR(Finish());
    return arguments_;
  }

 private:
  absl::Status TakeOperand(const std::string& word) {
    if (verb_ != nullptr) {
      arguments_.names.push_back(word);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(verb_, FindVerb(word));
    arguments_.verb = verb_->verb;
    return absl::OkStatus();
  }

  absl::Status TakeLong(std::string_view text) {
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const OptionDescription* option = FindOption(name);
    if (option == nullptr) {
      std::vector<std::string> known;
      known.reserve(kOptions.size());
      for (const OptionDescription& each : kOptions) {
        known.emplace_back(each.name);
      }
      return Misuse(fmt::format("--{} is no option{} ({})", Escaped(name), DidYouMean(name, known),
                                SeeHelp()));
    }
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) {
      value = text.substr(equals + 1);
    }
    return Take(*option, value);
  }

  // "-Ao json", "-njson", "-n=json".
  absl::Status TakeLetters(std::string_view letters) {
    while (!letters.empty()) {
      const OptionDescription* option = FindOption(letters[0]);
      if (option == nullptr) {
        return Misuse(
            fmt::format("-{} is no option ({})", Escaped(letters.substr(0, 1)), SeeHelp()));
      }
      letters.remove_prefix(1);
      if (option->value.empty()) {
        RETURN_IF_ERROR(Take(*option, std::nullopt));
        continue;
      }
      if (letters.empty()) {
        return Take(*option, std::nullopt);
      }
      letters.remove_prefix(letters[0] == '=' ? 1 : 0);
      return Take(*option, letters);
    }
    return absl::OkStatus();
  }

  absl::Status Take(const OptionDescription& option, std::optional<std::string_view> value) {
    given_.push_back(&option);
    if (option.value.empty()) {
      if (value.has_value() && *value != "true" && *value != "false") {
        return Misuse(fmt::format("--{} is a switch and takes no value", option.name));
      }
      Set(option.option, value == "false" ? "" : "true");
      return absl::OkStatus();
    }
    if (!value.has_value()) {
      if (at_ == words_.size()) {
        return Misuse(fmt::format("--{} needs a value: {}", option.name, option.value));
      }
      value = words_[at_++];
    }
    if (value->empty()) {
      return Misuse(
          fmt::format("--{} needs a value that is not empty: {}", option.name, option.value));
    }
    if (option.option == Option::kOutput) {
      return TakeOutput(*value);
    }
    Set(option.option, std::string(*value));
    return absl::OkStatus();
  }

  absl::Status TakeOutput(std::string_view value) {
    constexpr std::array<std::pair<std::string_view, OutputFormat>, 11> kFormats = {
        {{"json", OutputFormat::kJson},
         {"yaml", OutputFormat::kYaml},
         {"wide", OutputFormat::kWide},
         {"megatron", OutputFormat::kMegatron},
         {"bridge", OutputFormat::kBridge},
         {"deepspeed", OutputFormat::kDeepSpeed},
         {"torchtitan", OutputFormat::kTorchTitan},
         {"accelerate", OutputFormat::kAccelerate},
         {"torchrun", OutputFormat::kTorchrun},
         {"dot", OutputFormat::kDot},
         {"svg", OutputFormat::kSvg}}};
    for (const auto& [word, format] : kFormats) {
      if (word == value) {
        arguments_.output = format;
        return absl::OkStatus();
      }
    }
    return Misuse(fmt::format("--output: \"{}\" is not known: use json, yaml or wide{}",
                              Escaped(value),
                              verb_ != nullptr && verb_->verb == Verb::kPlan
                                  ? ", megatron, bridge, deepspeed, torchtitan, accelerate, "
                                    "torchrun or svg"
                                  : ""));
  }

  void Set(Option option, const std::string& value) {
    switch (option) {
      case Option::kNamespace:
        arguments_.namespace_name = value;
        return;
      case Option::kAllNamespaces:
        arguments_.all_namespaces = !value.empty();
        return;
      case Option::kContext:
        arguments_.context = value;
        return;
      case Option::kKubeconfig:
        arguments_.kubeconfig = value;
        return;
      case Option::kOutput:
        return;
      case Option::kLevel:
        arguments_.level = value;
        return;
      case Option::kClient:
        arguments_.client_only = !value.empty();
        return;
      case Option::kServer:
        arguments_.server = value;
        return;
      case Option::kCertificateAuthority:
        arguments_.certificate_authority = value;
        return;
      case Option::kControllerNamespace:
        arguments_.controller_namespace = value;
        return;
      case Option::kFilename:
        arguments_.job_file = value;
        return;
      case Option::kCluster:
        arguments_.cluster_file = value;
        return;
      case Option::kConfig:
        arguments_.config_file = value;
        return;
      case Option::kHelp:
        arguments_.help = !value.empty();
        return;
    }
  }

  absl::Status Finish() {
    if (verb_ == nullptr) {
      return arguments_.help ? absl::OkStatus()
                             : Misuse("no verb: kubectl asterism --help lists what there is");
    }
    arguments_.help = arguments_.help || verb_->verb == Verb::kHelp;
    if (arguments_.help) {
      return absl::OkStatus();
    }
    for (const OptionDescription* option : given_) {
      const auto& allowed = verb_->options;
      if (std::find(allowed.begin(), allowed.end(), option->option) == allowed.end()) {
        return Misuse(
            fmt::format("{} does not take --{} ({})", verb_->name, option->name, SeeHelp()));
      }
    }
    const OutputFormat output = arguments_.output;
    const bool topology = verb_->verb == Verb::kTopology;
    const bool plan = verb_->verb == Verb::kPlan;
    if ((output == OutputFormat::kSvg && !topology && !plan) ||
        (output == OutputFormat::kDot && !topology)) {
      return Misuse(fmt::format("{}: --output {}: use json, yaml or wide", verb_->name,
                                output == OutputFormat::kDot
                                    ? "dot is for topology alone"
                                    : "svg is for topology and plan alone"));
    }
    if (output >= OutputFormat::kMegatron && !plan) {
      return Misuse(
          fmt::format("--output: only plan writes that: use json, yaml or wide ({})", SeeHelp()));
    }
    if (plan && (arguments_.job_file.empty() || arguments_.cluster_file.empty())) {
      return Misuse("plan needs a job and a cluster: kubectl asterism plan -f FILE --cluster FILE");
    }
    return CheckOperands();
  }

  absl::Status CheckOperands() {
    constexpr size_t kOperandsMax = 1000;
    const size_t most = verb_->operand.empty()             ? 0
                        : verb_->operand.ends_with("...]") ? kOperandsMax
                                                           : 1;
    const size_t least = verb_->operand.empty() || verb_->operand.starts_with('[') ? 0 : 1;
    const size_t given = arguments_.names.size();
    if (given > most) {
      return Misuse(fmt::format("{}: \"{}\" is too many: usage: kubectl asterism {}{}{}",
                                verb_->name, Escaped(arguments_.names[most]), verb_->name,
                                most == 0 ? "" : " ", verb_->operand));
    }
    if (given < least) {
      return Misuse(fmt::format("{} needs {}: kubectl asterism {} {}", verb_->name, verb_->operand,
                                verb_->name, verb_->operand));
    }
    if (arguments_.all_namespaces && !arguments_.namespace_name.empty()) {
      return Misuse("--namespace and --all-namespaces exclude each other: leave one out");
    }
    return absl::OkStatus();
  }

  std::string SeeHelp() const {
    return verb_ == nullptr ? "see kubectl asterism --help"
                            : fmt::format("see kubectl asterism {} --help", verb_->name);
  }

  const std::span<const std::string> words_;
  size_t at_ = 0;
  bool operands_only_ = false;
  const VerbDescription* verb_ = nullptr;
  std::vector<const OptionDescription*> given_;
  Arguments arguments_;
};

}  // namespace

const std::vector<VerbDescription>& AllVerbs() {
  using enum Option;
  static const std::vector<VerbDescription> verbs = {
      {Verb::kTopology,
       "topology",
       "",
       "what the cluster has: the tree of levels with free, held and faulty GPUs",
       {kLevel, kOutput, kServer, kCertificateAuthority, kControllerNamespace, kContext,
        kKubeconfig}},
      {Verb::kDoctor,
       "doctor",
       "[FILE...]",
       "what is wrong with the cabling, in plain words: of the live cluster, or of dumps",
       {kOutput, kServer, kCertificateAuthority, kControllerNamespace, kContext, kKubeconfig}},
      {Verb::kExplain,
       "explain",
       "JOB",
       "why a TrainingJob waits, or where it runs",
       {kNamespace, kOutput, kContext, kKubeconfig}},
      {Verb::kQueue,
       "queue",
       "[QUEUE]",
       "the Queues with their use and limits, and the waiting jobs in order",
       {kNamespace, kAllNamespaces, kOutput, kContext, kKubeconfig}},
      {Verb::kTop,
       "top",
       "",
       "the TrainingJobs, redrawn every 2 s on a terminal",
       {kNamespace, kAllNamespaces, kOutput, kContext, kKubeconfig}},
      {Verb::kPlan,
       "plan",
       "",
       "the fastest parallel plan of a TrainingJob, its memory and its launch files; asks nobody",
       {kFilename, kCluster, kConfig, kOutput}},
      {Verb::kVersion,
       "version",
       "",
       "versions of this program and of the controller",
       {kClient, kOutput, kServer, kCertificateAuthority, kControllerNamespace, kContext,
        kKubeconfig}},
      {Verb::kCompletion,
       "completion",
       "SHELL",
       "a script that completes words in bash, zsh or fish",
       {}},
      {Verb::kHelp, "help", "[VERB]", "this text, or that of a verb", {}},
  };
  return verbs;
}

absl::StatusOr<const VerbDescription*> FindVerb(std::string_view name) {
  std::vector<std::string> known;
  known.reserve(AllVerbs().size());
  for (const VerbDescription& verb : AllVerbs()) {
    if (verb.name == name) {
      return &verb;
    }
    known.emplace_back(verb.name);
  }
  return Misuse(fmt::format("\"{}\" is no verb{} (use {})", Escaped(name), DidYouMean(name, known),
                            fmt::join(known, ", ")));
}

const VerbDescription& DescriptionOf(Verb verb) {
  for (const VerbDescription& each : AllVerbs()) {
    if (each.verb == verb) {
      return each;
    }
  }
  CHECK_THAT(false, "a verb without description");
  return AllVerbs().front();
}

const OptionDescription& DescriptionOf(Option option) {
  for (const OptionDescription& each : kOptions) {
    if (each.option == option) {
      return each;
    }
  }
  CHECK_THAT(false, "an option without description");
  return kOptions.front();
}

absl::StatusOr<Arguments> ReadArguments(std::span<const std::string> words) {
  return Reader(words).Read();
}

}  // namespace asterism::cli
