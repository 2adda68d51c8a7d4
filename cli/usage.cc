#include "cli/usage.h"

#include "fmt/format.h"

namespace asterism::cli {
namespace {

// What a verb's help says beside its options.
std::string_view DetailsOf(Verb verb) {
  switch (verb) {
    case Verb::kTopology:
      return "Equal domains share a line. --level LEVEL lists every domain down to that level,\n"
             "-o wide all domains with their jobs, -o dot and -o svg draw a picture.\n";
    case Verb::kDoctor:
      return "FILE is any dump that is known (ibnetdiscover, iblinkinfo, nvidia-smi topo -m, NCCL "
             "XML,\nSlurm topology, Node objects, cloud answers, also as .gz); - is standard "
             "input. No cluster is asked\nthen.\nExit code: 0 clean, 1 findings, 2 unreadable "
             "input.\n";
    case Verb::kExplain:
      return "Exit code: 0 it has its place or has ended well, 3 it waits, 4 it will never run as "
             "it "
             "is,\n1 error, 2 usage.\n";
    case Verb::kQueue:
      return "Waiting jobs of all namespaces are shown, or of those that you may list.\n";
    case Verb::kPlan:
      return "The cluster is a file of a few lines, levels from inner to outer:\n"
             "  gpu: H100\n"
             "  levels:\n"
             "  - {name: node, gpus: 8}\n"
             "  - {name: cluster, gpus: 1024, gigabytesPerSecond: 50, latencyMicroseconds: 14}\n"
             "-o megatron, bridge, deepspeed, torchtitan, accelerate or torchrun writes what that "
             "program\n"
             "reads, svg a picture of memory and time. Flags in the job's command are kept.\n"
             "Exit code: 0 there is a plan, 4 the model fits on no such plan, 1 error, 2 usage.\n";
    case Verb::kTop:
      return "Ctrl-C ends it. Without a terminal, and with -o json or yaml, it prints once.\n";
    case Verb::kCompletion:
      return "SHELL is bash, zsh or fish. For example: source <(kubectl-asterism completion "
             "bash)\n";
    case Verb::kVersion:
    case Verb::kHelp:
      return "";
  }
  return "";
}

std::string OptionLine(const OptionDescription& option) {
  const std::string head =
      fmt::format("{}--{}{}{}", option.letter == 0 ? "    " : fmt::format("-{}, ", option.letter),
                  option.name, option.value.empty() ? "" : " ", option.value);
  return fmt::format("  {:<34}{}\n", head, option.help);
}

}  // namespace

std::string UsageText() {
  std::string text =
      "kubectl asterism shows why a TrainingJob waits, where it runs, and what the cluster has "
      "free, and plans how one is to run.\n\nUsage: kubectl asterism VERB [OPTIONS]\n\nVerbs:\n";
  for (const VerbDescription& verb : AllVerbs()) {
    text +=
        fmt::format("  {:<18}{}\n",
                    fmt::format("{}{}{}", verb.name, verb.operand.empty() ? "" : " ", verb.operand),
                    verb.summary);
  }
  text +=
      "\nExit codes: 0 done or placed, 1 error, 2 usage, 3 not now, 4 never.\n"
      "kubectl asterism VERB --help describes a verb.\n";
  return text;
}

std::string UsageText(Verb verb) {
  if (verb == Verb::kHelp) {
    return UsageText();
  }
  const VerbDescription& description = DescriptionOf(verb);
  std::string text =
      fmt::format("{}: {}\n\nUsage: kubectl asterism {}{}{}{}\n", description.name,
                  description.summary, description.name, description.operand.empty() ? "" : " ",
                  description.operand, description.options.empty() ? "" : " [OPTIONS]");
  if (const std::string_view details = DetailsOf(verb); !details.empty()) {
    text += fmt::format("\n{}", details);
  }
  text += "\nOptions:\n";
  for (const Option option : description.options) {
    text += OptionLine(DescriptionOf(option));
  }
  return text + OptionLine(DescriptionOf(Option::kHelp));
}

}  // namespace asterism::cli
