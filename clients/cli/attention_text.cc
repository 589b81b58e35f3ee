#include "clients/cli/attention_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

constexpr int kMostReads = 3;
// A line of reads is 5 + 15 + 3 * 20 columns.
constexpr size_t kLabelWidth = 12;

// `text` and blanks up to `width` characters.
std::string Padded(const std::string& text, size_t width) {
  const size_t characters = NumCharacters(text);
  return text + std::string(characters < width ? width - characters : 1, ' ');
}

}  // namespace

std::string ShownToken(absl::string_view text, size_t most) {
  std::string shown = OnOneLine(std::string(text));
  return absl::StrCat("\"", Shortened(shown, most), "\"");
}

std::string MapsText(const v1::InspectResponse& seen) {
  const int n = seen.token_ids_size();
  std::string text = absl::StrFormat("%5s %5s %8s %8s %8s %10s\n", "layer", "head", "itself",
                                     "before", "first", "distance");
  for (const v1::AttentionMap& map : seen.maps()) {
    const Triangle weights(map.weights());
    double itself = 0, before = 0, first = 0, distance = 0;
    for (int i = 0; i < n; ++i) {
      itself += weights.At(i, i);
      if (i > 0) before += weights.At(i, i - 1);
      first += weights.At(i, 0);
      for (int j = 0; j < i; ++j) distance += double{weights.At(i, j)} * (i - j);
    }
    absl::StrAppendFormat(&text, "%5d %5d %8.3f %8.3f %8.3f %10.2f\n", map.layer(), map.head(),
                          itself / n, before / n, first / n, distance / n);
  }
  return text;
}

std::string ReadsText(const v1::InspectResponse& seen, const Triangle& weights,
                      const TokenLabel& label) {
  std::string text = absl::StrCat(Padded("   #", 5), Padded("token", kLabelWidth + 3), "reads\n");
  for (int i = 0; i < seen.token_ids_size(); ++i) {
    const absl::Span<const float> row = weights.Row(i);
    std::vector<int> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    const auto most = std::min<size_t>(kMostReads, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                      [row](int a, int b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    std::string line =
        absl::StrCat(absl::StrFormat("%4d ", i), Padded(label(seen.token_ids(i)), kLabelWidth + 3));
    for (size_t k = 0; k < most && row[order[k]] > 0; ++k) {
      const std::string what = absl::StrCat(order[k], " ", label(seen.token_ids(order[k])));
      absl::StrAppend(&line, absl::StrFormat("%.2f ", row[order[k]]),
                      k + 1 < most ? Padded(what, kLabelWidth + 3) : what);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string LensText(const v1::InspectResponse& seen, const TokenLabel& label) {
  std::string text =
      absl::StrCat("what each layer's row of the last token, ",
                   label(seen.token_ids(seen.token_ids_size() - 1)), ", would say next\nlayer\n");
  for (const v1::LensLayer& layer : seen.lens()) {
    std::string line = absl::StrFormat("%5d", layer.layer());
    for (const v1::TokenLogprob& token : layer.positions(layer.positions_size() - 1).top()) {
      const std::string next = absl::StrFormat("  %.3f %s", std::exp(token.logprob()),
                                               Padded(label(token.token_id()), kLabelWidth + 2));
      if (NumCharacters(line) + NumCharacters(next) > 82) break;
      absl::StrAppend(&line, next);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace sluice
