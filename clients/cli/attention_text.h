// What `sluice attention` prints for people. Pure functions of an answer and of the text of each of its
// tokens; lines have at most 80 columns where tokens are shown cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sluice/v1/inspect.pb.h"

namespace sluice {

// A lower triangle, row by row: AttentionMap.weights, or InspectResponse.rollout.
class Triangle {
 public:
  template <class Numbers>
  explicit Triangle(const Numbers& numbers) : numbers_(numbers.data(), numbers.size()) {}

  // 0 where column > row.
  float At(int row, int column) const {
    return column > row ? 0 : numbers_[size_t{1} * row * (row + 1) / 2 + column];
  }
  absl::Span<const float> Row(int row) const {
    return numbers_.subspan(size_t{1} * row * (row + 1) / 2, row + 1);
  }

 private:
  absl::Span<const float> numbers_;
};

// How tokens are shown: quoted, printable and on one line, cut to `most` characters; ids where there
// is no tokenizer.
using TokenLabel = std::function<std::string(int32_t id)>;
std::string ShownToken(absl::string_view text, size_t most);

// Of every map a line: how much its rows give on average to their own position, the one before and the
// first, and how far back they look.
std::string MapsText(const v1::InspectResponse& seen);
// Of every position a line: the three that it reads most.
std::string ReadsText(const v1::InspectResponse& seen, const Triangle& weights,
                      const TokenLabel& label);
// Of every layer a line: what its row of the last position would say.
std::string LensText(const v1::InspectResponse& seen, const TokenLabel& label);

}  // namespace sluice
