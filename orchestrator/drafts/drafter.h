// Who proposes what a sequence goes on with. A drafter knows one kind of reason for which tokens are
// likely, and says which; how often tokens of a kind are right is counted elsewhere.
//
// One drafter per sequence and kind, on the scheduler's thread. Proposing is a matter of
// microseconds. What takes longer computes elsewhere and is waited for where that wins: a model of
// its own does (model_drafter.h), heads that read hidden rows would.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

// Why a token is proposed. Tokens of one kind are about as often right.
enum class DraftKind : uint8_t {
  kForced,    // no other is allowed
  kExpected,  // the caller expects it
  // No other text is allowed, and this is how it is usually written in tokens; of these the last, which
  // may in truth go on beyond that text.
  kSpelled,
  kSpelledEnd,
  // It followed when the same tokens came before, in this sequence; by how many those are.
  kAfter2,
  kAfter3,
  kAfter4,  // or 5
  kAfter6,  // to 9
  kAfter10,
  // The same in other sequences.
  kSharedAfter3,
  kSharedAfter4,  // or 5
  kSharedAfter6,  // to 9
  kSharedAfter10,
  // A draft model chose it; by how probable it held it.
  kModelSure,    // from 0.9 on
  kModelLikely,  // from 0.6
  kModelUnsure,  // from 0.3
  kModelGuess,   // less
  kModelAny,     // of all four: what is known before it is asked
};
inline constexpr int kNumDraftKinds = 18;

struct DraftToken {
  TokenId token = 0;
  DraftKind kind = DraftKind::kForced;

  friend bool operator==(const DraftToken&, const DraftToken&) = default;
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // The sequence has these tokens: those of the call before with others behind them.
  virtual void Learn(absl::Span<const TokenId> tokens) = 0;

  // Appends what may follow the tokens last learned, up to `most` tokens, each supposing those
  // before it; nothing where it knows of none.
  virtual void Propose(absl::Span<const TokenId> tokens, int32_t most,
                       std::vector<DraftToken>& draft) = 0;
};

}  // namespace sluice
