#include "clients/cli/simulate_chart.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

constexpr double kWidth = 1040, kHeight = 706;
constexpr char kBlue[] = "#2563eb", kRed[] = "#dc2626", kGreen[] = "#15803d", kAmber[] = "#b45309";
constexpr char kGrey[] = "#6b7280", kGrid[] = "#e5e7eb", kInk[] = "#111827";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// A number on an axis, and what is written there.
struct Tick {
  double at = 0;
  std::string text;
};

struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;

  double PartOf(double value) const {
    const double bounded = std::clamp(value, low, high);
    if (logarithmic) return std::log(bounded / low) / std::log(high / low);
    return (bounded - low) / (high - low);
  }
};

std::string ShortTime(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 0.0009999) return absl::StrFormat("%g us", std::round(seconds * 1e8) / 100);
  if (seconds < 0.9999) return absl::StrFormat("%g ms", std::round(seconds * 1e5) / 100);
  if (seconds < 119.99) return absl::StrFormat("%g s", std::round(seconds * 100) / 100);
  if (seconds < 7199) return absl::StrFormat("%g min", std::round(seconds / 6) / 10);
  return absl::StrFormat("%g h", std::round(seconds / 360) / 10);
}

// 1, 2 or 5 times a power of ten, about a fifth of `high`.
double StepFor(double high) {
  const double power = std::pow(10, std::floor(std::log10(high / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (high / 5 <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

Axis LinearAxis(double most, const std::function<std::string(double)>& text) {
  Axis axis;
  const double step = StepFor(std::max(most, 1e-9));
  axis.high = std::max(step * std::ceil(most / step - 1e-9), step);
  for (double at = 0; at <= axis.high + step / 2; at += step) axis.ticks.push_back({at, text(at)});
  return axis;
}

Axis LogTimeAxis(double least, double most) {
  Axis axis{.logarithmic = true};
  axis.low = std::pow(10, std::floor(std::log10(std::max(least, 1e-6)) + 1e-9));
  axis.high = std::pow(10, std::ceil(std::log10(std::max(most, least)) - 1e-9));
  if (axis.high < 2 * axis.low) axis.high = 10 * axis.low;
  for (double at = axis.low; at < 1.5 * axis.high; at *= 10) {
    axis.ticks.push_back({at, ShortTime(at)});
  }
  return axis;
}

// Of the times of a fleet.
Axis ElapsedAxis(double seconds) {
  if (seconds < 120) return LinearAxis(seconds, [](double at) { return ShortTime(at); });
  const double unit = seconds < 7200 ? 60 : 3600;
  Axis axis = LinearAxis(seconds / unit, [unit](double at) { return ShortTime(at * unit); });
  axis.high *= unit;
  for (Tick& tick : axis.ticks) tick.at *= unit;
  return axis;
}

Axis ShareAxis() {
  return LinearAxis(1, [](double at) { return absl::StrFormat("%.0f %%", 100 * at); });
}

using Points = std::vector<std::pair<double, double>>;

// One diagram: a frame with axes, into which lines and areas are drawn.
class Panel {
 public:
  Panel(double x, double y, const std::string& title, Axis across, Axis up)
      : x_(x), y_(y), across_(std::move(across)), up_(std::move(up)) {
    Text(x_, y_ - 16, title, kInk, "start", "600 14px");
    for (const Tick& tick : up_.ticks) {
      const double at = Y(tick.at);
      absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\"/>\n", x_, at,
                            x_ + kPanelWidth, kGrid);
      Text(x_ - 8, at + 4, tick.text, kGrey, "end");
    }
    double free_from = -1e9;
    for (const Tick& tick : across_.ticks) {
      const double at = X(tick.at);
      if (at < free_from) continue;
      absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %.1fv4\" stroke=\"%s\"/>\n", at,
                            y_ + kPanelHeight, kGrey);
      Text(at, y_ + kPanelHeight + 19, tick.text, kGrey, "middle");
      free_from = at + 7.0 * static_cast<double>(tick.text.size()) + 8;
    }
    absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"%s\"/>\n", x_,
                          y_ + kPanelHeight, kPanelWidth, kGrey);
  }

  void Line(const Points& points, const char* color) {
    if (points.empty()) return;
    absl::StrAppendFormat(&svg_,
                          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
                          "stroke-linejoin=\"round\" points=\"%s\"/>\n",
                          color, Coordinates(points));
  }
  void Area(const Points& points, const char* color) {
    if (points.empty()) return;
    absl::StrAppendFormat(
        &svg_, "<polygon fill=\"%s\" fill-opacity=\"0.15\" points=\"%.1f,%.1f %s %.1f,%.1f\"/>\n",
        color, X(points.front().first), Y(up_.low), Coordinates(points), X(points.back().first),
        Y(up_.low));
    Line(points, color);
  }
  void Bar(double at, double value, double width, const char* color) {
    absl::StrAppendFormat(
        &svg_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
        X(at) - width / 2, Y(value), width, Y(up_.low) - Y(value), color);
  }
  // A limit, across or up; one outside of the panel is not drawn.
  void LimitUp(double value, const std::string& text) {
    if (value < up_.low || value > up_.high) return;
    absl::StrAppendFormat(&svg_,
                          "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\" stroke-dasharray=\"5 4\"/>\n",
                          x_, Y(value), x_ + kPanelWidth, kInk);
    Text(x_ + kPanelWidth, Y(value) - 5, text, kInk, "end");
  }
  void LimitAcross(double value, const std::string& text) {
    if (value < across_.low || value > across_.high) return;
    absl::StrAppendFormat(&svg_,
                          "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\" stroke-dasharray=\"5 4\"/>\n",
                          X(value), y_, y_ + kPanelHeight, kInk);
    const bool right = X(value) < x_ + kPanelWidth / 2;
    Text(X(value) + (right ? 6 : -6), y_ + kPanelHeight - 8, text, kInk, right ? "start" : "end");
  }
  // What a line is, beside the title, from the right.
  void Legend(const std::string& text, const char* color) {
    legend_ += 7.2 * static_cast<double>(text.size()) + 26;
    const double at = x_ + kPanelWidth - legend_ + 10;
    absl::StrAppendFormat(&svg_, "<path d=\"M%.1f %.1fh12\" stroke=\"%s\" stroke-width=\"3\"/>\n",
                          at, y_ - 20, color);
    Text(at + 16, y_ - 16, text, color, "start");
  }

  // At the foot of a bar.
  void Note(double across, const std::string& text) {
    Text(X(across), y_ + kPanelHeight - 8, text, "#fff", "middle");
  }
  const std::string& svg() const { return svg_; }

 private:
  static constexpr double kPanelWidth = 410, kPanelHeight = 215;

  double X(double value) const { return x_ + kPanelWidth * across_.PartOf(value); }
  double Y(double value) const { return y_ + kPanelHeight * (1 - up_.PartOf(value)); }

  std::string Coordinates(const Points& points) const {
    std::string text;
    for (const auto& [across, up] : points) {
      absl::StrAppendFormat(&text, "%s%.1f,%.1f", text.empty() ? "" : " ", X(across), Y(up));
    }
    return text;
  }
  void Text(double x, double y, const std::string& text, const char* color, const char* anchor,
            const char* font = "12px") {
    absl::StrAppendFormat(
        &svg_,
        "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"%s\" style=\"font:%s "
        "system-ui,sans-serif\">%s</text>\n",
        x, y, color, anchor, font, Escaped(text));
  }

  const double x_, y_;
  const Axis across_, up_;
  double legend_ = 0;
  std::string svg_;
};

std::string HeadLine(double y, const char* color, const char* font, const std::string& text) {
  return absl::StrFormat(
      "<text x=\"70\" y=\"%.0f\" fill=\"%s\" style=\"font:%s system-ui,sans-serif\">%s</text>\n", y,
      color, font, Escaped(text));
}

constexpr double kLeft = 70, kRight = 590, kTop = 128, kBottom = 438;

double EndOf(const FleetFigures& figures) {
  return std::max(figures.seconds, figures.window_seconds);
}

// Of windows in which requests arrived: what `value` says of each.
Points OverTime(const FleetFigures& figures,
                const std::function<std::optional<double>(const FleetWindow&)>& value) {
  Points points;
  for (size_t i = 0; i < figures.windows.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * figures.window_seconds;
    const std::optional<double> known = value(figures.windows[i]);
    if (known.has_value() && middle <= EndOf(figures)) points.emplace_back(middle, *known);
  }
  return points;
}

std::string FirstTokenOverTime(const SimulationReport& report) {
  const FleetFigures& figures = report.figures;
  const auto quantile = [&figures](double share) {
    return OverTime(figures, [share](const FleetWindow& window) -> std::optional<double> {
      if (window.first_token.count() == 0) return std::nullopt;
      return window.first_token.Quantile(share);
    });
  };
  const Points half = quantile(0.5), most = quantile(0.95);
  double least = 1e9, highest = 1e-6;
  for (const auto& [at, seconds] : half) least = std::min(least, seconds);
  for (const auto& [at, seconds] : most) highest = std::max(highest, seconds);
  const std::optional<double> level = report.options.levels.first_token;
  if (level.has_value()) highest = std::max(highest, *level);
  Panel panel(kLeft, kTop, "First token, by arrival", ElapsedAxis(EndOf(figures)),
              LogTimeAxis(std::min(least, highest), highest));
  panel.Line(most, kRed);
  panel.Line(half, kBlue);
  panel.Legend("p95", kRed);
  panel.Legend("p50", kBlue);
  if (level.has_value()) panel.LimitUp(*level, absl::StrCat("ttft ", ShortTime(*level)));
  return panel.svg();
}

std::string UnderWay(const SimulationReport& report) {
  const FleetFigures& figures = report.figures;
  const auto count = [&figures](int64_t FleetWindow::*field) {
    return OverTime(figures, [field](const FleetWindow& window) -> std::optional<double> {
      return static_cast<double>(window.*field);
    });
  };
  const Points running = count(&FleetWindow::running), waiting = count(&FleetWindow::waiting);
  double most = 1;
  for (const Points& points : {running, waiting}) {
    for (const auto& [at, number] : points) most = std::max(most, number);
  }
  Panel panel(kRight, kTop, "Requests under way", ElapsedAxis(EndOf(figures)),
              LinearAxis(most, [](double at) { return absl::StrFormat("%g", at); }));
  panel.Area(running, kGreen);
  panel.Area(waiting, kAmber);
  panel.Legend("waiting", kAmber);
  panel.Legend("running", kGreen);
  return panel.svg();
}

// The share of `times` up to each time, and the level that is to be kept.
std::string Shares(double x, const std::string& title, const LogHistogram& times, const char* color,
                   const char* level_name, std::optional<double> level) {
  const double least = std::max(times.Quantile(0.01) * 0.8, 1e-6);
  const double most = std::max({times.max(), level.value_or(0), 2 * least});
  const Axis across = LogTimeAxis(least, most);
  Points points;
  constexpr int kPoints = 200;
  for (int i = 0; i <= kPoints; ++i) {
    const double at = across.low * std::pow(across.high / across.low, i / double{kPoints});
    points.emplace_back(at, times.ShareWithin(at));
  }
  Panel panel(x, kBottom, title, across, ShareAxis());
  panel.Area(points, color);
  if (level.has_value()) {
    panel.LimitAcross(*level, absl::StrFormat("%s %s: %.1f %%", level_name, ShortTime(*level),
                                              100 * times.ShareWithin(*level)));
  }
  return panel.svg();
}

std::string TriedFleets(const SimulationReport& report) {
  std::vector<TriedFleet> tried = report.tried;
  std::sort(tried.begin(), tried.end(), [](const TriedFleet& a, const TriedFleet& b) {
    return a.num_shards() != b.num_shards() ? a.num_shards() < b.num_shards()
                                            : a.max_step_tokens < b.max_step_tokens;
  });
  Axis across{.high = static_cast<double>(tried.size())};
  for (size_t i = 0; i < tried.size(); ++i) {
    across.ticks.push_back({static_cast<double>(i) + 0.5, SettingOf(tried[i], report.search)});
  }
  Panel panel(kRight, kBottom, "Requests that keep the levels, by " + NameOf(report.search), across,
              ShareAxis());
  const double width = std::min(0.6 * 410 / static_cast<double>(tried.size()), 60.0);
  for (size_t i = 0; i < tried.size(); ++i) {
    const bool keeps = tried[i].kept_share >= report.wanted_share;
    const double at = static_cast<double>(i) + 0.5;
    panel.Bar(at, tried[i].kept_share, width, keeps ? kGreen : "#9ca3af");
    panel.Note(at, absl::StrFormat("%.1f %%", 100 * tried[i].kept_share));
  }
  panel.LimitUp(report.wanted_share, "");
  return panel.svg();
}

}  // namespace

std::string SimulationChart(const SimulationReport& report) {
  const FleetFigures& figures = report.figures;
  const std::string title = absl::StrCat(
      report.options.num_replicas, report.options.num_replicas == 1 ? " replica" : " replicas",
      report.model.empty() ? "" : " of ", report.model);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n"
      "<title>%s: %s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      kWidth, kHeight, Escaped(title), Escaped(report.load));
  absl::StrAppend(
      &svg, HeadLine(34, kInk, "600 18px", title), HeadLine(57, kGrey, "13px", report.load),
      HeadLine(
          76, kGrey, "13px",
          absl::StrFormat("%s; busy %.0f %% of the time; %.0f %% of prompt tokens found in the "
                          "prefix cache",
                          report.options.routing == FleetRouting::kPrefix
                              ? "sent by the longest known prefix"
                              : "sent in turns",
                          100 * figures.mean_busy(), 100 * figures.cache_hit_share())));
  const ServiceLevels& levels = report.options.levels;
  absl::StrAppend(&svg, FirstTokenOverTime(report), UnderWay(report),
                  Shares(kLeft, "Requests by first token", figures.first_token, kBlue, "ttft",
                         levels.first_token),
                  report.tried.empty()
                      ? Shares(kRight, "Time between tokens", figures.between_tokens, kBlue, "tpot",
                               levels.between_tokens)
                      : TriedFleets(report));
  return svg + "</svg>\n";
}

}  // namespace sluice
