// Rewrites regular expressions from Oniguruma's Ruby dialect, in which tokenizer.json files are
// written, to PCRE2's. Pure; thread-safe.
//
// Rewritten because the two mean different things by it:
//   \s \S \w \W \b \B \h, [[:alpha:]] and its like: Unicode's sets, as Oniguruma counts them
//   \p{Alpha}, \p{Letter}, \p{Han}: long names; scripts without their extensions
//   (?m): the dot matches newlines
//   x{2,3}+, x**: repeat the repetition; x*+, x++ and x?+ are possessive in both
//   x{,3}: from 0 to 3 times
//   \uHHHH
//   [a[bc]]: nested sets are united
// Not known to PCRE2 10.42, whose tables are Unicode 14's: characters added to Unicode since.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

// UNIMPLEMENTED, saying what and where, for intersections (&&), negated nested sets and \S, \W or
// \H inside a set. Anything else that is malformed is left for PCRE2 to refuse.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace sluice
