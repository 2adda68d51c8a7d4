#include "cli/command.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/arguments.h"
#include "cli/cluster_objects.h"
#include "cli/completion.h"
#include "cli/controller_page.h"
#include "cli/doctor_page.h"
#include "cli/doctor_view.h"
#include "cli/explain_view.h"
#include "cli/job_outcome.h"
#include "cli/live_screen.h"
#include "cli/near_names.h"
#include "cli/plan_command.h"
#include "cli/queue_view.h"
#include "cli/server_session.h"
#include "cli/structured_output.h"
#include "cli/top_view.h"
#include "cli/topology_picture.h"
#include "cli/topology_tree.h"
#include "cli/topology_view.h"
#include "cli/usage.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "topology/import/doctor.h"
#include "topology/import/import_text.h"

namespace asterism::cli {
namespace {

using nlohmann::ordered_json;
using operators::TrainingJob;

constexpr absl::Duration kRedrawInterval = absl::Seconds(2);

class Command {
 public:
  Command(Arguments arguments, const Surroundings& around)
      : arguments_(std::move(arguments)), around_(around) {}

  // What Run returned an error for lies in the words that were typed.
  bool misused() const { return misused_; }

  absl::StatusOr<int> Run() {
    switch (arguments_.verb) {
      case Verb::kTopology:
        return Topology();
      case Verb::kDoctor:
        return Doctor();
      case Verb::kExplain:
        return Explain();
      case Verb::kQueue:
        return Queue();
      case Verb::kTop:
        return Top();
      case Verb::kPlan:
        return RunPlan(arguments_, around_);
      case Verb::kVersion:
        return Version();
      case Verb::kCompletion:
        return Completion();
      case Verb::kHelp:
        around_.out << UsageText();
        return kExitDone;
    }
    return kExitError;
  }

 private:
  bool structured() const {
    return arguments_.output == OutputFormat::kJson || arguments_.output == OutputFormat::kYaml;
  }
  bool wide() const { return arguments_.output == OutputFormat::kWide; }

  void Show(const std::vector<Line>& lines) { around_.out << Print(lines, around_.paper); }
  void Show(const ordered_json& value) { around_.out << StructuredText(value, arguments_.output); }

  absl::Status Misused(const std::string& message) {
    misused_ = true;
    return absl::InvalidArgumentError(message);
  }

  absl::Status Connect() {
    kube::KubeconfigOptions options = around_.kubeconfig;
    options.path = arguments_.kubeconfig;
    options.context = arguments_.context;
    absl::StatusOr<kube::ApiConfig> config = kube::LoadApiConfig(around_.clock, options);
    if (!config.ok()) {
      return absl::FailedPreconditionError(Escaped(base::ToStd(config.status().message())));
    }
    session_ = std::make_unique<ServerSession>(*std::move(config));
    return absl::OkStatus();
  }

  // -n, or that of the context; empty with -A.
  std::string Namespace() const {
    if (arguments_.all_namespaces) {
      return "";
    }
    return arguments_.namespace_name.empty() ? session_->namespace_name()
                                             : arguments_.namespace_name;
  }

  absl::StatusOr<std::string> ControllerPage(std::string_view path) {
    ControllerAddress address{
        .server = arguments_.server.empty() ? around_.server : arguments_.server,
        .namespace_name = arguments_.controller_namespace};
    while (address.server.ends_with('/')) {
      address.server.pop_back();
    }
    if (address.server.empty()) {
      RETURN_IF_ERROR(Connect());
      return ReadControllerPage(address, session_.get(), path);
    }
    if (!address.server.starts_with("http://") && !address.server.starts_with("https://")) {
      return Misused(fmt::format("--server: \"{}\" is no URL: use https://HOST:PORT",
                                 Escaped(address.server)));
    }
    if (!arguments_.certificate_authority.empty()) {
      absl::StatusOr<std::string> ca = base::ReadSmallFile(arguments_.certificate_authority);
      if (!ca.ok()) {
        return absl::FailedPreconditionError(fmt::format(
            "--certificate-authority: {}", Escaped(base::ToStd(ca.status().message()))));
      }
      address.ca_pem = *std::move(ca);
    }
    return ReadControllerPage(address, nullptr, path);
  }

  absl::StatusOr<int> Topology() {
    ASSIGN_OR_RETURN(const std::string body, ControllerPage("/topologyz"));
    const absl::StatusOr<TopologyTree> tree = ParseTopologyTree(body);
    if (!tree.ok()) {
      return absl::DataLossError(fmt::format(
          "the controller's page /topologyz cannot be read: {} (compare the versions: kubectl "
          "asterism version)",
          Escaped(base::ToStd(tree.status().message()))));
    }
    std::optional<size_t> level;
    if (!arguments_.level.empty()) {
      level = tree->FindLevel(arguments_.level);
      if (!level.has_value()) {
        return Misused(fmt::format("--level: \"{}\" is not a level of this cluster ({})",
                                   Escaped(arguments_.level), fmt::join(tree->levels, ", ")));
      }
    }
    if (arguments_.output == OutputFormat::kSvg) {
      around_.out << TopologySvg(*tree);
    } else if (arguments_.output == OutputFormat::kDot) {
      around_.out << TopologyDot(*tree);
    } else if (structured()) {
      Show(TopologyJson(*tree, level));
    } else {
      Show(TopologyLines(*tree, {.level = level, .wide = wide()}));
    }
    return kExitDone;
  }

  absl::StatusOr<int> Doctor() {
    std::vector<topology::TextOfCluster> texts;
    for (const std::string& name : arguments_.names) {
      if (name == "-") {
        texts.push_back({"standard input", std::string(std::istreambuf_iterator<char>(std::cin),
                                                       std::istreambuf_iterator<char>())});
      } else {
        texts.push_back({name, base::ReadFile(name, topology::kImportBytesMax)});
      }
    }
    if (texts.empty()) {
      return LiveDoctor();
    }
    const topology::Diagnosis diagnosis = topology::Examine(texts);
    if (structured()) {
      Show(topology::DiagnosisJson(diagnosis));
    } else {
      Show(DoctorLines(diagnosis, {.width = around_.paper.width, .wide = wide()}));
    }
    return diagnosis.unreadable          ? kExitUnreadable
           : !diagnosis.findings.empty() ? kExitFindings
                                         : kExitDone;
  }

  // What the controller finds in the cluster that it sees.
  absl::StatusOr<int> LiveDoctor() {
    ASSIGN_OR_RETURN(const std::string body, ControllerPage("/doctorz"));
    const absl::StatusOr<DoctorPage> page = ParseDoctorPage(body);
    if (!page.ok()) {
      return absl::DataLossError(fmt::format(
          "the controller's page /doctorz cannot be read: {} (compare the versions: kubectl "
          "asterism version)",
          Escaped(base::ToStd(page.status().message()))));
    }
    if (structured()) {
      Show(topology::DiagnosisJson(page->diagnosis));
    } else {
      std::vector<Line> lines = DoctorLines(
          page->diagnosis, {.width = around_.paper.width, .wide = wide(), .sources = false});
      if (page->unknown_findings > 0) {
        lines.emplace_back(
            fmt::format("note: {} findings are of kinds that this version does not know",
                        page->unknown_findings),
            Tone::kWarn);
      }
      if (!page->leading) {
        lines.emplace_back(
            "note: the controller that answered does not lead: agents speak to the leader",
            Tone::kWarn);
      }
      Show(lines);
    }
    return page->diagnosis.findings.empty() && page->unknown_findings == 0 ? kExitDone
                                                                           : kExitFindings;
  }

  // "tj/llama" and "trainingjob/llama" are the job too, as in kubectl.
  absl::StatusOr<std::string> JobName() {
    const std::string& word = arguments_.names[0];
    const size_t slash = word.find('/');
    const std::string kind = slash == std::string::npos ? "tj" : word.substr(0, slash);
    const std::string name = slash == std::string::npos ? word : word.substr(slash + 1);
    constexpr std::string_view kKinds[] = {"tj", "trainingjob", "trainingjobs",
                                           "trainingjob.asterism.dev", "trainingjobs.asterism.dev"};
    if (name.empty() || std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) {
      return Misused(
          fmt::format("\"{}\" is no TrainingJob: name one, JOB or tj/JOB (-n names "
                      "its namespace)",
                      Escaped(word)));
    }
    return name;
  }

  absl::StatusOr<int> Explain() {
    ASSIGN_OR_RETURN(const std::string name, JobName());
    RETURN_IF_ERROR(Connect());
    Explanation explanation{.now = around_.clock.Now()};
    ASSIGN_OR_RETURN(explanation.job, ReadJob(*session_, {Namespace(), name}));
    const absl::StatusOr<operators::Queue> queue = ReadQueue(*session_, explanation.job.spec.queue);
    if (queue.ok()) {
      explanation.queue = QueueRowOf(*queue);
    } else if (absl::IsPermissionDenied(queue.status())) {
      explanation.queue_note = "you may not read its quota (get queues.asterism.dev)";
    } else {
      explanation.queue_note = std::string(base::ToStd(queue.status().message()));
    }
    if (structured()) {
      Show(ExplainJson(explanation));
    } else {
      Show(ExplainLines(explanation, {.width = around_.paper.width, .wide = wide()}));
    }
    return ExitCodeOf(OutcomeOf(explanation.job));
  }

  absl::StatusOr<std::vector<QueueRow>> QueueRows() {
    ASSIGN_OR_RETURN(const std::vector<operators::Queue> queues, ReadQueues(*session_));
    std::vector<QueueRow> rows;
    std::vector<std::string> names;
    for (const operators::Queue& queue : queues) {
      names.push_back(queue.meta.name);
      if (arguments_.names.empty() || arguments_.names[0] == queue.meta.name) {
        rows.push_back(QueueRowOf(queue));
      }
    }
    if (rows.empty() && !arguments_.names.empty()) {
      return absl::NotFoundError(
          fmt::format("there is no Queue \"{}\"{} (kubectl asterism queue lists all)",
                      Escaped(arguments_.names[0]), DidYouMean(arguments_.names[0], names)));
    }
    return rows;
  }

  absl::StatusOr<int> Queue() {
    RETURN_IF_ERROR(Connect());
    QueuePicture picture{.now = around_.clock.Now()};
    ASSIGN_OR_RETURN(picture.queues, QueueRows());
    absl::StatusOr<std::vector<TrainingJob>> jobs = ReadJobs(*session_, arguments_.namespace_name);
    // A queue belongs to many namespaces; who may look into his own only still sees those jobs.
    const bool all = arguments_.namespace_name.empty();
    if (all && !arguments_.all_namespaces && absl::IsPermissionDenied(jobs.status())) {
      picture.note = fmt::format("only the jobs of namespace \"{}\": you may not list those of all",
                                 Namespace());
      jobs = ReadJobs(*session_, Namespace());
    }
    RETURN_IF_ERROR(jobs.status());
    picture.waiting =
        WaitingJobs(*std::move(jobs), arguments_.names.empty() ? "" : arguments_.names[0]);
    if (structured()) {
      Show(QueueJson(picture));
    } else {
      Show(QueueLines(picture, {.wide = wide()}));
    }
    return kExitDone;
  }

  std::string DrawTop(TerminalSize size) {
    const Paper paper{.width = size.columns, .colour = around_.paper.colour};
    absl::StatusOr<std::vector<TrainingJob>> jobs = ReadJobs(*session_, Namespace());
    if (!jobs.ok()) {
      return Print({Line(base::ToStd(jobs.status().message()), Tone::kBad),
                    Line("trying again; Ctrl-C ends", Tone::kFaint)},
                   paper);
    }
    return Print(TopLines(*std::move(jobs), {.now = around_.clock.Now(),
                                             .all_namespaces = arguments_.all_namespaces,
                                             .wide = wide(),
                                             .rows_max = size.rows}),
                 paper);
  }

  absl::StatusOr<int> Top() {
    const bool live = around_.live && !structured();
    if (live) {
      BlockSignals();
    }
    RETURN_IF_ERROR(Connect());
    // What is wrong from the start ends the program; what goes wrong later is shown.
    ASSIGN_OR_RETURN(std::vector<TrainingJob> jobs, ReadJobs(*session_, Namespace()));
    if (live) {
      RunLiveScreen(kRedrawInterval, [this](TerminalSize size) { return DrawTop(size); });
    } else if (structured()) {
      Show(TopJson(std::move(jobs)));
    } else {
      Show(TopLines(std::move(jobs), {.now = around_.clock.Now(),
                                      .all_namespaces = arguments_.all_namespaces,
                                      .wide = wide()}));
    }
    return kExitDone;
  }

  absl::StatusOr<int> Version() {
    ordered_json value = {{"client", {{"version", ASTERISM_VERSION}}}};
    absl::Status problem;
    if (!arguments_.client_only) {
      const absl::StatusOr<std::string> body = ControllerPage("/versionz");
      problem = body.status();
      if (body.ok()) {
        problem = TakeControllerVersion(*body, value);
      }
    }
    if (structured()) {
      Show(value);
    } else {
      around_.out << fmt::format("client:     {}\n", ASTERISM_VERSION);
      if (value.contains("controller")) {
        const ordered_json& controller = value["controller"];
        Show({Line(fmt::format("controller: {}{}", controller["version"].get<std::string>(),
                               controller["leading"].get<bool>() ? "" : " (does not lead)"))});
      }
    }
    RETURN_IF_ERROR(problem);
    return kExitDone;
  }

  static absl::Status TakeControllerVersion(const std::string& body, ordered_json& value) {
    const nlohmann::json page = nlohmann::json::parse(body, nullptr, false);
    if (!page.is_object() || !page.contains("version") || !page["version"].is_string()) {
      return absl::DataLossError(
          "the controller's page /versionz names no version: is the address "
          "that of an asterism-controller?");
    }
    const bool leading = page.contains("leading") && page["leading"] == true;
    value["controller"] = {{"version", page["version"].get<std::string>()}, {"leading", leading}};
    return absl::OkStatus();
  }

  absl::StatusOr<int> Completion() {
    const std::optional<std::string> script = CompletionScript(arguments_.names[0]);
    if (!script.has_value()) {
      return Misused(
          fmt::format("\"{}\" is no shell that is known: use bash, "
                      "zsh or fish",
                      Escaped(arguments_.names[0])));
    }
    around_.out << *script;
    return kExitDone;
  }

  const Arguments arguments_;
  const Surroundings& around_;
  std::unique_ptr<ServerSession> session_;
  bool misused_ = false;
};

int Fail(const Surroundings& around, const absl::Status& status, int code) {
  around.error << "error: " << Escaped(base::ToStd(status.message())) << "\n";
  return code;
}

// --help, or `help VERB`.
absl::StatusOr<std::string> HelpOf(const Arguments& arguments) {
  if (arguments.verb != Verb::kHelp || arguments.names.empty()) {
    return UsageText(arguments.verb);
  }
  ASSIGN_OR_RETURN(const VerbDescription* verb, FindVerb(arguments.names[0]));
  return UsageText(verb->verb);
}

}  // namespace

int RunCommand(std::span<const std::string> words, const Surroundings& surroundings) {
  absl::StatusOr<Arguments> arguments = ReadArguments(words);
  if (!arguments.ok()) {
    return Fail(surroundings, arguments.status(), kExitUsage);
  }
  if (arguments->help) {
    const absl::StatusOr<std::string> text = HelpOf(*arguments);
    if (!text.ok()) {
      return Fail(surroundings, text.status(), kExitUsage);
    }
    surroundings.out << *text;
    return kExitDone;
  }
  // 1 of doctor says that there are findings.
  const int failure = arguments->verb == Verb::kDoctor ? kExitUnreadable : kExitError;
  Command command(*std::move(arguments), surroundings);
  const absl::StatusOr<int> code = command.Run();
  if (!code.ok()) {
    return Fail(surroundings, code.status(), command.misused() ? kExitUsage : failure);
  }
  return *code;
}

}  // namespace asterism::cli
