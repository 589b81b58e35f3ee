#include "tests/simulation/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/beams/beam_search.h"
#include "tests/simulation/fake_model.h"
#include "tests/simulation/simulated_services.h"

namespace sluice::simulation {
namespace {

SoloSequence RunAlone(const EngineRequest& request, int index, int num_stages, int num_ranks) {
  SoloModel model(num_stages, num_ranks);
  SoloSequence solo;
  uint64_t row = 0;
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.score && i > 0) {
      solo.tokens.push_back(request.prompt[i]);
      solo.logprobs.push_back(LogprobOf(row, request.prompt[i]));
    }
    row = model.Append(request.prompt[i]);
  }
  if (request.score) {
    solo.reason = EndReason::kScored;
    return solo;
  }
  for (int i = 0; i < *request.max_new_tokens; ++i) {
    const TokenId token = ChosenToken(row, request.sampling.seed, index);
    solo.tokens.push_back(token);
    solo.logprobs.push_back(LogprobOf(row, token));
    if (std::count(request.stop_tokens.begin(), request.stop_tokens.end(), token) > 0) {
      solo.reason = EndReason::kStopToken;
      return solo;
    }
    if (std::count(request.stop_strings.begin(), request.stop_strings.end(), TextOf(token)) > 0) {
      solo.reason = EndReason::kStopString;
      return solo;
    }
    solo.text += TextOf(token);
    row = model.Append(token);
  }
  return solo;
}

EndReason ReasonOf(BeamEnd end) {
  switch (end) {
    case BeamEnd::kStopToken:
      return EndReason::kStopToken;
    case BeamEnd::kStopString:
      return EndReason::kStopString;
    case BeamEnd::kLength:
      break;
  }
  return EndReason::kLength;
}

SoloSequence SoloOf(const BeamSearch& search, const FinishedBeam& found) {
  SoloSequence solo;
  solo.reason = ReasonOf(found.end);
  for (const BeamNode node : search.PathTo(found.node, 0)) {
    solo.tokens.push_back(search.TokenOf(node));
    solo.logprobs.push_back(search.LogprobOf(node));
  }
  const size_t silent = solo.reason == EndReason::kLength ? 0 : 1;
  for (size_t i = 0; i + silent < solo.tokens.size(); ++i) solo.text += TextOf(solo.tokens[i]);
  return solo;
}

// The same search, one beam after the other on models of their own.
std::vector<SoloSequence> SearchAlone(const EngineRequest& request, int num_stages, int num_ranks) {
  struct Beam {
    SoloModel model;
    uint64_t row = 0;
  };
  BeamOptions options = request.beams->search;
  options.max_length = *request.max_new_tokens;
  options.stop_tokens = request.stop_tokens;
  options.judges = !request.stop_strings.empty();
  BeamSearch search(options);
  std::vector<Beam> beams = {{SoloModel(num_stages, num_ranks)}};
  for (const TokenId token : request.prompt) beams[0].row = beams[0].model.Append(token);
  while (!search.over()) {
    std::vector<std::vector<BeamCandidate>> candidates(beams.size());
    for (size_t i = 0; i < beams.size(); ++i) {
      for (const TokenId token : MostProbable(beams[i].row, request.beams->num_candidates)) {
        candidates[i].push_back({.token = token, .logprob = LogprobOf(beams[i].row, token)});
      }
    }
    search.Rank(candidates);
    for (auto unknown = search.ToJudge(); !unknown.empty(); unknown = search.ToJudge()) {
      for (const int32_t index : unknown) {
        search.Judge(index, TextOf(search.expansion(index).token) == request.stop_strings[0]);
      }
    }
    search.Advance();
    std::vector<Beam> next;
    for (const LiveBeam& live : search.live()) {
      next.push_back(beams[live.parent]);
      next.back().row = next.back().model.Append(search.TokenOf(live.node));
    }
    beams = std::move(next);
  }
  std::vector<SoloSequence> solo;
  for (const FinishedBeam& found : search.Best()) solo.push_back(SoloOf(search, found));
  return solo;
}

void SearchByBeams(Chance& chance, EngineRequest& request) {
  BeamSettings& beams = request.beams.emplace();
  beams.search.width = chance.Pick(1, 5);
  beams.search.num_return = chance.Pick(1, beams.search.width);
  beams.search.length_penalty = chance.Pick(-1, 2);
  beams.search.early_stopping = static_cast<EarlyStopping>(chance.Pick(0, 2));
  beams.num_candidates = 2 * beams.search.width;
  request.num_sequences = beams.search.num_return;
}

}  // namespace

// Only its own connection's events count.
class Client::ConnectionSink final : public RequestSink {
 public:
  explicit ConnectionSink(std::shared_ptr<Client> client)
      : client_(std::move(client)), connection_(client_->connection_) {}

  void OnChunk(ChunkEvent chunk) override {
    if (current()) client_->OnChunk(std::move(chunk));
  }
  void OnFinished(RequestEnd end) override {
    if (current()) client_->OnFinished(std::move(end));
  }
  void OnFailed(absl::Status status) override {
    if (current()) client_->OnFailed(std::move(status));
  }

 private:
  bool current() const { return client_->connection_ == connection_; }

  const std::shared_ptr<Client> client_;
  const int connection_;
};

EngineRequest Client::RandomRequest(Chance& chance, int max_positions, int beam_percent) {
  EngineRequest request;
  const int longest = max_positions / 2;  // of the prompt, and of what follows
  const int length = chance.Pick(1, chance.Percent(20) ? longest : std::min(longest, 12));
  for (int i = 0; i < length; ++i) request.prompt.push_back(chance.Pick(0, kVocabulary - 1));
  request.score = chance.Percent(10);
  request.sampling.seed = chance.Number();
  request.num_sequences = !request.score && chance.Percent(20) ? chance.Pick(2, 3) : 1;
  request.max_new_tokens = request.score ? 0 : chance.Pick(1, std::min(longest, 20));
  if (chance.Percent(50)) request.stop_tokens.push_back(chance.Pick(0, kVocabulary - 1));
  request.wants_text = !request.score && chance.Percent(70);
  if (request.wants_text && chance.Percent(30)) {
    request.stop_strings.push_back(TextOf(chance.Pick(0, kVocabulary - 1)));
  }
  // Prompts often begin alike, and some requests keep to themselves.
  for (int i = 0; i < length && chance.Percent(80); ++i) request.prompt[i] = i % 3;
  if (!request.score && chance.Percent(beam_percent)) SearchByBeams(chance, request);
  request.use_prefix_cache = !chance.Percent(10);
  if (chance.Percent(10)) request.cache_salt = "salt";
  if (chance.Percent(15)) request.priority = chance.Pick(-1, 1);
  if (!request.score && chance.Percent(70)) request.max_drafts = chance.Pick(1, 6);
  return request;
}

namespace {

// A request that may be drafted on expects what it will write, but for a token now and then.
EngineRequest Expecting(EngineRequest request, int num_stages, int num_ranks) {
  if (request.max_drafts == 0 || request.beams.has_value()) return request;
  std::vector<TokenId> expected = RunAlone(request, 0, num_stages, num_ranks).tokens;
  for (size_t i = request.sampling.seed % 5; i < expected.size(); i += 5) expected[i] = 0;
  request.expected_tokens = std::make_shared<const std::vector<TokenId>>(std::move(expected));
  return request;
}

}  // namespace

Client::Client(EngineRequest request, int num_stages, int num_ranks)
    : request_(Expecting(std::move(request), num_stages, num_ranks)),
      outputs_(request_.num_sequences) {
  if (request_.beams.has_value()) {
    solo_ = SearchAlone(request_, num_stages, num_ranks);
    outputs_.resize(solo_.size());
    return;
  }
  for (int index = 0; index < request_.num_sequences; ++index) {
    solo_.push_back(RunAlone(request_, index, num_stages, num_ranks));
  }
}

// A score is asked again from the start: it keeps no tokens.
EngineRequest Client::Resumed() const {
  EngineRequest request = request_;
  if (request.score) return request;
  for (const Output& output : outputs_) request.resumed.push_back(output.tokens);
  return request;
}

std::shared_ptr<RequestSink> Client::Sink() {
  ++connection_;
  if (request_.score) outputs_.assign(1, {});
  return std::make_shared<ConnectionSink>(shared_from_this());
}

void Client::OnChunk(ChunkEvent chunk) {
  if (over()) ++num_late_;
  Output& output = outputs_.at(chunk.sequence_index);
  for (const TokenEvent& token : chunk.tokens) {
    output.tokens.push_back(token.token);
    output.logprobs.push_back(token.logprob);
  }
  output.text += chunk.text;
}

void Client::OnFinished(RequestEnd end) {
  if (over()) ++num_late_;
  ++num_ends_;
  end_ = std::move(end);
}

void Client::OnFailed(absl::Status status) {
  if (absl::IsUnavailable(status) && on_lost_ && !request_.deadline && !over()) {
    NewConnection();
    return on_lost_();
  }
  if (over()) ++num_late_;
  ++num_ends_;
  failure_ = std::move(status);
}

std::string Client::FaultOf(int index) const {
  const Output& output = outputs_[index];
  const SoloSequence& solo = solo_[index];
  const std::vector<TokenId>& expected = solo.tokens;
  if (output.tokens.size() > expected.size() ||
      !std::equal(output.tokens.begin(), output.tokens.end(), expected.begin())) {
    return absl::StrCat("got tokens ", absl::StrJoin(output.tokens, ","), " instead of ",
                        absl::StrJoin(expected, ","));
  }
  if (!std::equal(output.logprobs.begin(), output.logprobs.end(), solo.logprobs.begin())) {
    return "got other log-probabilities";
  }
  if (request_.wants_text && solo.text.compare(0, output.text.size(), output.text) != 0) {
    return absl::StrCat("got text ", output.text, " instead of ", solo.text);
  }
  if (!end_.has_value()) return "";
  if (output.tokens.size() != expected.size()) {
    return absl::StrCat("finished after ", output.tokens.size(), " of ", expected.size(),
                        " tokens");
  }
  if (request_.wants_text && output.text != solo.text) return "finished without all its text";
  const EndReason reason = end_->sequences.at(index).reason;
  if (reason == solo.reason) return "";
  return absl::StrCat("finished for reason ", static_cast<int>(reason), " instead of ",
                      static_cast<int>(solo.reason));
}

std::string Client::Kind() const {
  std::string kind = request_.score ? "score" : "generation";
  if (request_.beams.has_value()) {
    const BeamOptions& search = request_.beams->search;
    kind = absl::StrCat("search by ", search.width, " beams, penalty ", search.length_penalty,
                        ", early stopping ", static_cast<int>(search.early_stopping));
  }
  if (outputs_.size() > 1) absl::StrAppend(&kind, ", ", outputs_.size(), " sequences");
  if (request_.max_drafts > 0 && !request_.beams.has_value()) {
    absl::StrAppend(&kind, ", drafts of ", request_.max_drafts);
  }
  if (!request_.stop_tokens.empty()) absl::StrAppend(&kind, ", stop token");
  if (!request_.stop_strings.empty()) absl::StrAppend(&kind, ", stop string");
  if (request_.wants_text) absl::StrAppend(&kind, ", text");
  return kind;
}

std::string Client::Fault() const {
  const auto of_its_kind = [this](const std::string& fault) {
    return absl::StrCat(fault, " (", Kind(), ")");
  };
  if (num_ends_ > 1) return of_its_kind(absl::StrCat("ended ", num_ends_, " times"));
  if (num_late_ > 0) return of_its_kind("heard something after its end");
  for (int index = 0; index < std::ssize(solo_); ++index) {
    const std::string fault = FaultOf(index);
    if (!fault.empty()) return of_its_kind(absl::StrCat("sequence ", index, " ", fault));
  }
  return "";
}

}  // namespace sluice::simulation
