#include <array>

#include "cli/plan_view.h"
#include "cli/xml_text.h"
#include "fmt/format.h"

namespace asterism::cli {
namespace {

constexpr double kBarLeft = 20;
constexpr double kBarWidth = 760;
constexpr double kBarHeight = 36;
constexpr double kLegendRow = 20;
constexpr std::array<std::string_view, 12> kColours = {"#4477aa", "#66ccee", "#228833", "#ccbb44",
                                                       "#ee6677", "#aa3377", "#bbbbbb", "#332288",
                                                       "#88ccee", "#44aa99", "#999933", "#882255"};

struct BarPart {
  std::string name;
  double value = 0;
  std::string label;
};

// A bar with its legend below; gives the y below it. `whole` is the length of the bar.
double DrawBar(std::string_view title, const std::vector<BarPart>& parts, double whole, double y,
               std::string& svg) {
  svg += fmt::format("<text x=\"{}\" y=\"{:.0f}\" font-weight=\"bold\">{}</text>\n", kBarLeft, y,
                     XmlText(title));
  y += 10;
  svg += fmt::format(
      "<rect x=\"{}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n",
      kBarLeft, y, kBarWidth, kBarHeight);
  double x = kBarLeft;
  for (size_t index = 0; index < parts.size(); ++index) {
    const double width = kBarWidth * parts[index].value / whole;
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>{}: {}</title></rect>\n",
        x, y, width, kBarHeight, kColours[index % kColours.size()], XmlText(parts[index].name),
        XmlText(parts[index].label));
    x += width;
  }
  y += kBarHeight + 22;
  for (size_t index = 0; index < parts.size(); ++index) {
    const double column = kBarLeft + static_cast<double>(index % 3) * (kBarWidth / 3);
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}: {}</text>\n",
        column, y - 11, kColours[index % kColours.size()], column + 18, y,
        XmlText(parts[index].name), XmlText(parts[index].label));
    y += index % 3 == 2 ? kLegendRow : 0;
  }
  return y + 2 * kLegendRow;
}

}  // namespace

std::string PlanPicture(const PlanQuestion& question, const planner::PlanAnswer& answer) {
  const planner::SearchRequest& request = question.request;
  const planner::StageMemory& stage = answer.memory.stages[answer.memory.peak_stage];
  const double device = answer.device.device.value;
  std::vector<BarPart> memory;
  const auto add_memory = [&memory, device](std::string_view name, double bytes) {
    if (bytes > 0.002 * device) {
      memory.push_back({std::string(name), bytes, fmt::format("{:.1f} GiB", bytes / (1 << 30))});
    }
  };
  for (const auto& [name, bytes] : stage.Terms()) {
    const bool moment = name == "loss moment" || name == "backward moment";
    add_memory(name, moment && bytes < stage.Moment() ? 0 : bytes);
  }
  add_memory("fragments", answer.device.reserved.value - answer.device.allocated.value);
  add_memory("context and NCCL", device - answer.device.reserved.value);
  std::vector<BarPart> step;
  for (const auto& [name, seconds] : answer.time_terms) {
    if (seconds > 0.002 * answer.seconds.value) {
      step.push_back(
          {std::string(name), seconds,
           fmt::format("{:.3g} s, {:.0f} %", seconds, 100 * seconds / answer.seconds.value)});
    }
  }
  std::string body;
  const planner::Degrees& d = answer.best().plan.degrees;
  body += fmt::format(
      "<text x=\"{}\" y=\"28\" font-size=\"16\">{}: {} on {} {}, tensor {} pipeline {} context {} "
      "data {}</text>\n",
      kBarLeft, XmlText(question.name), XmlText(request.model.name), answer.best().gpus,
      XmlText(request.cluster.gpu.name), d.tensor, d.pipeline, d.context, d.data);
  double y = DrawBar(fmt::format("Memory of the fullest GPU: {:.1f} of {:.1f} GiB",
                                 device / (1 << 30), request.cluster.gpu.memory_bytes / (1 << 30)),
                     memory, std::max(device, request.cluster.gpu.memory_bytes), 64, body);
  y = DrawBar(fmt::format("Step: {:.3g} s", answer.seconds.value), step, answer.seconds.value, y,
              body);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      y, body);
}

}  // namespace asterism::cli
