#include "cli/completion.h"

#include <vector>

#include "absl/strings/str_replace.h"
#include "base/strings.h"
#include "cli/arguments.h"
#include "fmt/format.h"

namespace asterism::cli {
namespace {

// List the objects that a word may name; silent where the cluster does not answer.
constexpr std::string_view kJobNames =
    "kubectl get trainingjobs --no-headers -o custom-columns=:metadata.name 2>/dev/null";
constexpr std::string_view kQueueNames =
    "kubectl get queues.asterism.dev --no-headers -o custom-columns=:metadata.name 2>/dev/null";

// Names in @ are filled in.
constexpr char kBash[] = R"sh(# bash completion of kubectl-asterism
_kubectl_asterism() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
  case $before in
    -o|--output)
      case $verb in
@FORMATS@      esac ;;
    --kubeconfig|--certificate-authority|-f|--filename|--cluster|--config|doctor)
      if [[ $word != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); return; fi ;;
    explain) words="$(@JOBS@)" ;;
    queue) words="$(@QUEUES@)" ;;
    completion) words="bash zsh fish" ;;
    help) words="@VERBS@" ;;
  esac
  if [[ $COMP_CWORD -eq 1 ]]; then
    words="@VERBS@"
  elif [[ -z $words || $word == -* ]]; then
    case $verb in
@OPTIONS@    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _kubectl_asterism kubectl-asterism
)sh";

// What -o takes.
std::string FormatWords(const VerbDescription& verb) {
  switch (verb.verb) {
    case Verb::kTopology:
      return "json yaml wide dot svg";
    case Verb::kPlan:
      return "json yaml wide svg megatron bridge deepspeed torchtitan accelerate torchrun";
    default:
      return "json yaml wide";
  }
}

bool NamesFile(Option option) {
  return option == Option::kKubeconfig || option == Option::kCertificateAuthority ||
         option == Option::kFilename || option == Option::kCluster || option == Option::kConfig;
}

std::string OptionWords(const VerbDescription& verb) {
  std::vector<std::string> words;
  for (const Option option : verb.options) {
    words.push_back(fmt::format("--{}", DescriptionOf(option).name));
  }
  words.emplace_back("--help");
  return fmt::format("{}", fmt::join(words, " "));
}

std::string BashScript() {
  std::vector<std::string_view> verbs;
  std::string options;
  std::string formats;
  for (const VerbDescription& verb : AllVerbs()) {
    verbs.push_back(verb.name);
    formats += fmt::format("        {}) words=\"{}\" ;;\n", verb.name, FormatWords(verb));
    options += fmt::format("      {}) words=\"{}\" ;;\n", verb.name, OptionWords(verb));
  }
  return absl::StrReplaceAll(kBash, {{"@JOBS@", base::ToAbsl(kJobNames)},
                                     {"@QUEUES@", base::ToAbsl(kQueueNames)},
                                     {"@VERBS@", fmt::format("{}", fmt::join(verbs, " "))},
                                     {"@OPTIONS@", options},
                                     {"@FORMATS@", formats}});
}

// zsh runs bash's script.
std::string ZshScript() {
  return "#compdef kubectl-asterism\nautoload -U +X bashcompinit && bashcompinit\n" + BashScript();
}

std::string FishLine(std::string_view verb, std::string_view rest) {
  return fmt::format("complete -c kubectl-asterism -n '__fish_seen_subcommand_from {}' {}\n", verb,
                     rest);
}

std::string FishScript() {
  std::string script = "# fish completion of kubectl-asterism\ncomplete -c kubectl-asterism -f\n";
  for (const VerbDescription& verb : AllVerbs()) {
    script += fmt::format("complete -c kubectl-asterism -n __fish_use_subcommand -a {} -d '{}'\n",
                          verb.name, verb.summary);
    for (const Option option : verb.options) {
      const OptionDescription& description = DescriptionOf(option);
      std::string rest = fmt::format("-l {}", description.name);
      if (description.letter != 0) {
        rest += fmt::format(" -s {}", description.letter);
      }
      rest += description.value.empty() ? "" : NamesFile(option) ? " -r -F" : " -x";
      rest += option == Option::kOutput ? fmt::format(" -a '{}'", FormatWords(verb)) : "";
      script += FishLine(verb.name, rest);
    }
  }
  script += FishLine("explain", fmt::format("-a '({})'", kJobNames));
  script += FishLine("queue", fmt::format("-a '({})'", kQueueNames));
  return script + FishLine("completion", "-a 'bash zsh fish'");
}

}  // namespace

std::optional<std::string> CompletionScript(std::string_view shell) {
  if (shell == "bash") {
    return BashScript();
  }
  if (shell == "zsh") {
    return ZshScript();
  }
  if (shell == "fish") {
    return FishScript();
  }
  return std::nullopt;
}

}  // namespace asterism::cli
