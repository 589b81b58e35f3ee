#include "clients/cli/attention_svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

constexpr int64_t kMostCells = 100'000;
constexpr float kLeastWeight = 0.005F;

// Colours, and what follows the reader's choice of light or dark.
constexpr char kStyle[] = R"svg(<style>
svg { --paper: #ffffff; --ink: #1d2530; --faint: #667080; --frame: #d4dae2; --mark: #0a53c0;
      background: var(--paper); font: 11px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #12161c; --ink: #e6ebf2; --faint: #97a3b4; --frame: #343d4a; --mark: #6fb1ff; }
}
text { fill: var(--ink); }
.faint { fill: var(--faint); }
.title { font-size: 13px; font-weight: 600; }
.frame { fill: none; stroke: var(--frame); }
.c { fill: var(--mark); }
.c:hover { stroke: var(--ink); stroke-width: 1; }
</style>
)svg";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Small weights are what most of a map is made of: the root keeps them visible.
double ShadeOf(float weight) { return std::sqrt(std::min(weight, 1.0F)); }

struct Place {
  double x = 0, y = 0, cell = 0;
};

void AppendCells(const HeatMap& map, const Place& at, const std::vector<std::string>& tokens,
                 std::string& svg) {
  const auto n = static_cast<int>(tokens.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      const float weight = map.weights.At(i, j);
      if (weight < kLeastWeight) continue;
      absl::StrAppendFormat(
          &svg,
          R"svg(<rect class="c" x="%.6g" y="%.6g" width="%.6g" height="%.6g" fill-opacity="%.3g"><title>%s reads %s: %.3f</title></rect>)svg"
          "\n",
          at.x + j * at.cell, at.y + i * at.cell, at.cell, at.cell, ShadeOf(weight),
          Escaped(absl::StrCat(i, " ", tokens[i])), Escaped(absl::StrCat(j, " ", tokens[j])),
          weight);
    }
  }
  absl::StrAppendFormat(&svg,
                        R"svg(<path class="frame" d="M%.6g %.6gV%.6gH%.6g"/>)svg"
                        "\n",
                        at.x, at.y, at.y + n * at.cell, at.x + n * at.cell);
}

void AppendLegend(double x, double y, std::string& svg) {
  constexpr float kShown[] = {0.01F, 0.1F, 0.25F, 0.5F, 1};
  for (const float weight : kShown) {
    absl::StrAppendFormat(
        &svg,
        R"svg(<rect class="c" x="%.6g" y="%.6g" width="16" height="12" fill-opacity="%.3g"/>)svg"
        R"svg(<text class="faint" x="%.6g" y="%.6g">%g</text>)svg"
        "\n",
        x, y, ShadeOf(weight), x + 20, y + 10, weight);
    x += 56;
  }
}

// How wide labels are, by a middling character.
double WidthOf(const std::vector<std::string>& labels) {
  size_t longest = 1;
  for (const std::string& label : labels) longest = std::max(longest, NumCharacters(label));
  return static_cast<double>(longest) * 6.4;
}

void AppendLabels(const Place& at, const std::vector<std::string>& tokens, std::string& svg) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * at.cell;
    const std::string label = Escaped(tokens[i]);
    absl::StrAppendFormat(&svg,
                          R"svg(<text x="%.6g" y="%.6g" text-anchor="end">%s</text>)svg"
                          "\n",
                          at.x - 6, at.y + middle + 4, label);
    absl::StrAppendFormat(
        &svg,
        R"svg(<text x="%.6g" y="%.6g" transform="rotate(-60 %.6g %.6g)">%s</text>)svg"
        "\n",
        at.x + middle + 3, at.y - 6, at.x + middle + 3, at.y - 6, label);
  }
}

std::string Document(double width, double height, const std::string& content) {
  return absl::StrFormat(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img">)svg"
      "\n%s%s</svg>\n",
      width, height, width, height, kStyle, content);
}

constexpr double kMargin = 16, kLegendWidth = 5 * 56;

std::string OneMapSvg(const HeatMap& map, const std::vector<std::string>& tokens) {
  const auto n = static_cast<double>(tokens.size());
  const double cell = std::clamp(560 / n, 3.0, 22.0);
  // Labels of rows that are lower than their letters would cover each other.
  const bool labelled = cell >= 11;
  const double labels = labelled ? WidthOf(tokens) : 0;
  const Place at = {
      .x = kMargin + labels + 6, .y = kMargin + 24 + labels * 0.87 + 10, .cell = cell};
  std::string content = absl::StrFormat(R"svg(<text class="title" x="%g" y="%g">%s</text>)svg"
                                        "\n",
                                        kMargin, kMargin + 12, Escaped(map.title));
  if (labelled) AppendLabels(at, tokens, content);
  AppendCells(map, at, tokens, content);
  const double bottom = at.y + n * cell;
  absl::StrAppendFormat(&content,
                        R"svg(<text class="faint" x="%.6g" y="%.6g">%s</text>)svg"
                        "\n",
                        kMargin, bottom + 20, "row: the token that reads; column: the token read");
  AppendLegend(kMargin, bottom + 30, content);
  const double width = std::max(at.x + n * cell + labels * 0.5, kMargin + kLegendWidth) + kMargin;
  return Document(width, bottom + 58, content);
}

std::string PanelsSvg(const std::vector<HeatMap>& maps, int per_row,
                      const std::vector<std::string>& tokens) {
  const auto n = static_cast<double>(tokens.size());
  const double side = std::clamp(n * 6, 72.0, 160.0), step = side + 14;
  std::string content;
  for (size_t index = 0; index < maps.size(); ++index) {
    const auto column = static_cast<double>(index % static_cast<size_t>(per_row));
    const auto row = static_cast<double>(index / static_cast<size_t>(per_row));
    const Place at = {
        .x = kMargin + column * step, .y = kMargin + 16 + row * (step + 14), .cell = side / n};
    absl::StrAppendFormat(&content,
                          R"svg(<text class="faint" x="%.6g" y="%.6g">%s</text>)svg"
                          "\n",
                          at.x, at.y - 5, Escaped(maps[index].title));
    AppendCells(maps[index], at, tokens, content);
  }
  const auto rows = static_cast<double>((maps.size() + per_row - 1) / per_row);
  const double bottom = kMargin + rows * (step + 14);
  absl::StrAppendFormat(&content,
                        R"svg(<text class="faint" x="%.6g" y="%.6g">%s</text>)svg"
                        "\n",
                        kMargin, bottom + 12, "layer, head; row: the token that reads");
  AppendLegend(kMargin, bottom + 24, content);
  return Document(std::max(per_row * step, kLegendWidth) + 2 * kMargin, bottom + 52, content);
}

}  // namespace

absl::StatusOr<std::string> HeatMapsSvg(const std::vector<HeatMap>& maps, int panels_per_row,
                                        const std::vector<std::string>& tokens) {
  int64_t cells = 0;
  for (const HeatMap& map : maps) {
    for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
      cells += std::ranges::count_if(map.weights.Row(i),
                                     [](float weight) { return weight >= kLeastWeight; });
    }
  }
  if (cells > kMostCells) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of ", cells, " cells; accepted: up to ", kMostCells,
                     ": name a layer and a head, or give a shorter text"));
  }
  return maps.size() == 1 ? OneMapSvg(maps.front(), tokens)
                          : PanelsSvg(maps, panels_per_row, tokens);
}

}  // namespace sluice
