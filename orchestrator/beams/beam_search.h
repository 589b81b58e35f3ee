// Beam search over the continuations of one prompt: which tokens go on, which sequences are done,
// which are the best. Pure: no clock, thread or I/O. Everything is a function of the candidates that
// it is given, which are a function of tokens; it is not told, and does not care, when and on what
// they were computed.
//
// A step: the caller gives the most probable next tokens of every live beam. All expansions of all
// beams are ranked by the sum of their log-probabilities, ties by the lower token, then by the
// lower beam. They are walked in this order: one that ends (with a stop token, or a stop string that
// the caller has found) becomes a finished sequence where it is among the first `width` and is dropped
// otherwise; any other one becomes a live beam, until there are `width` of these. After `max_length`
// steps what is live is finished. Of the finished, the `width` best by score are kept:
//
//   score = sum of log-probabilities / length ^ length_penalty,
//
// where the length is that of the generated tokens, the one that stopped the sequence included
// (Hugging Face's definitions). Sums are in double, in the order of the tokens.
//
// A stochastic search (Kool, van Hoof and Welling 2019) ranks by log-probabilities perturbed with Gumbel
// noise, those of children being conditioned on their maximum being that of their parent; what has
// ended keeps its place among the first `width`. What comes out is a sample of sequences without
// replacement, in the order in which they would be drawn one after the other.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

// When a search with `width` finished sequences is over.
enum class EarlyStopping {
  // Once no live beam can come to a better score than the worst finished one: under a length penalty
  // above 0 at its greatest length, otherwise as it is.
  kNever,
  // Once no live beam has a better score, as it is, than the worst finished one. It might have
  // come to one.
  kHeuristic,
  // At once.
  kAtOnce,
};

struct BeamOptions {
  int32_t width = 1;
  int32_t num_return = 1;  // the best so many; 1 to width
  int32_t max_length = 1;  // tokens that a sequence may have, at least 1
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
  std::vector<TokenId> stop_tokens;
  // Whether the caller looks for stop strings: ToJudge.
  bool judges = false;
  // Samples without replacement. Length penalty and early stopping play no role.
  bool stochastic = false;
};

// So many of a beam's most probable next tokens are enough to know the step: twice the width, and one
// more for each further stop token, because those take the place of beams that go on. Of a stochastic
// search, the width.
int32_t NumCandidates(const BeamOptions& options);

// A token that may come next.
struct BeamCandidate {
  TokenId token = 0;
  float logprob = 0;     // after the beam's tokens
  double perturbed = 0;  // stochastic: logprob with Gumbel noise of the token's own
};

// A place in the tree of all tokens that were ever chosen.
using BeamNode = int32_t;
inline constexpr BeamNode kPrompt = -1;  // before the first token

struct LiveBeam {
  BeamNode node = kPrompt;
  double sum = 0;        // of log-probabilities
  double perturbed = 0;  // stochastic
  int32_t parent = 0;    // index of the beam that it goes on from, among those before
};

enum class BeamEnd { kStopToken, kStopString, kLength };

struct FinishedBeam {
  BeamNode node = kPrompt;
  double sum = 0;
  double score = 0;  // stochastic: the perturbed sum
  BeamEnd end = BeamEnd::kLength;
};

class BeamSearch {
 public:
  // REQUIRES: 1 <= num_return <= width, 1 <= max_length.
  explicit BeamSearch(BeamOptions options);

  // The live beams, best first: at first one, the prompt. Empty once the search is over.
  absl::Span<const LiveBeam> live() const { return live_; }
  bool over() const { return live_.empty(); }

  // Ranks what may come next. `candidates` has, for every live beam, its NumCandidates most probable
  // tokens or all there are, in any order; none for a beam that can't go on.
  // REQUIRES: the search is not over.
  void Rank(absl::Span<const std::vector<BeamCandidate>> candidates);

  // An expansion of a live beam by a token.
  struct Expansion {
    int32_t parent = 0;
    TokenId token = 0;
    float logprob = 0;
    double sum = 0;
    double order = 0;  // by which they are ranked: the sum, or the perturbed one
    bool judged = false;
    bool ends = false;  // a stop token or, once judged, a stop string
  };
  // Expansions that the step depends on and whose text has not been judged, as indexes for
  // expansion() and Judge(); empty where the options say that nobody judges. Others may follow once
  // these are judged.
  std::vector<int32_t> ToJudge() const;
  const Expansion& expansion(int32_t index) const { return ranked_[index]; }
  // Whether its text has come to a stop string with this token.
  void Judge(int32_t index, bool ends);

  // Takes the step. REQUIRES: ranked, and nothing to judge.
  void Advance();

  // The `num_return` best finished sequences, or all where they are fewer, best first. What they
  // are is settled when the search is over.
  std::vector<FinishedBeam> Best() const;

  // ---- The tree ----

  int32_t num_nodes() const { return static_cast<int32_t>(nodes_.size()); }
  TokenId TokenOf(BeamNode node) const { return nodes_[node].token; }
  float LogprobOf(BeamNode node) const { return nodes_[node].logprob; }
  // Which live beam the node's token came after, as they were numbered before that step.
  int32_t BeamBefore(BeamNode node) const { return nodes_[node].beam_before; }
  // Tokens up to and with the node's; 0 for the prompt.
  int32_t LengthOf(BeamNode node) const { return node == kPrompt ? 0 : nodes_[node].length; }
  // The nodes from the `from`-th token on to `node`.
  std::vector<BeamNode> PathTo(BeamNode node, int32_t from) const;
  // The last node that all live beams and all finished sequences that may still be returned have in
  // common.
  BeamNode Common() const;

 private:
  struct Node {
    BeamNode parent = kPrompt;
    TokenId token = 0;
    float logprob = 0;
    int32_t beam_before = 0;
    int32_t length = 0;
  };

  BeamNode Grow(const Expansion& expansion);
  void Finish(const Expansion& expansion, BeamNode node, BeamEnd end);
  BeamEnd EndOf(const Expansion& expansion) const;
  void AdvanceBySum();
  void AdvanceByPerturbed();
  void FinishLive();
  bool IsSettled() const;
  BeamNode CommonOf(BeamNode a, BeamNode b) const;
  int32_t length() const { return LengthOf(live_.front().node); }

  const BeamOptions options_;
  const absl::flat_hash_set<TokenId> stop_tokens_;
  std::vector<Node> nodes_;
  std::vector<LiveBeam> live_;
  std::vector<FinishedBeam> finished_;  // by falling score, equal ones as they were found
  std::vector<Expansion> ranked_;
};

// The perturbed log-probability of a child, conditioned on that of its parent being the largest of
// its children's: `own` is the child's by itself, `largest` the largest of all children. Stable where
// they lie far apart (Kool et al. 2019, appendix B.3).
double ConditionedGumbel(double parent, double largest, double own);

}  // namespace sluice
