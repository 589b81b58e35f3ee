#include "tests/testing/fake_tokenizer.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/expected_tokenizer.h"

namespace sluice::testing {

struct FakeTokenizer::Session {
  struct Sequence {
    v1::DetokenizeOpen open;
    std::string text;
    uint64_t num_tokens = 0;
  };
  std::map<uint64_t, Sequence> sequences;
};

std::string FakeText(const std::vector<int32_t>& tokens) {
  std::string text;
  for (int32_t token : tokens) absl::StrAppend(&text, "<", token, ">");
  return text;
}

void FakeTokenizer::SetBreaks(Breaks breaks) {
  absl::MutexLock lock(&mutex_);
  breaks_ = std::move(breaks);
}

void FakeTokenizer::SetDigest(std::string digest) {
  absl::MutexLock lock(&mutex_);
  digest_ = std::move(digest);
}

void FakeTokenizer::SetChange(std::function<void(v1::DetokenizeStreamResponse&)> change) {
  absl::MutexLock lock(&mutex_);
  change_ = std::move(change);
}

int FakeTokenizer::num_streams() const {
  absl::MutexLock lock(&mutex_);
  return num_streams_;
}

std::multiset<uint64_t> FakeTokenizer::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

bool FakeTokenizer::WaitUntilEnded(uint64_t id) const {
  const std::pair<const FakeTokenizer*, uint64_t> asked = {this, id};
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(
                                     +[](const std::pair<const FakeTokenizer*, uint64_t>* asked)
                                          ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                            return asked->first->ended_.contains(asked->second);
                                          },
                                     &asked),
                                 absl::Minutes(1));
}

grpc::ServerBidiReactor<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>*
FakeTokenizer::DetokenizeStream(grpc::CallbackServerContext* context) {
  absl::Status valid;
  {
    absl::MutexLock lock(&mutex_);
    ++num_streams_;
    valid = CheckExpectedTokenizer(*context, digest_);
  }
  Stream* const stream =
      Stream::Start({.on_request =
                         [this, session = std::make_shared<Session>()](
                             Stream& stream, const v1::DetokenizeStreamRequest& request) {
                           Handle(*session, stream, request);
                           for (const auto& other : request.others()) {
                             Handle(*session, stream, other);
                           }
                         },
                     .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); }});
  if (!valid.ok()) stream->Close(valid);
  return stream;
}

void FakeTokenizer::Handle(Session& session, Stream& stream,
                           const v1::DetokenizeStreamRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (breaks_ != nullptr && breaks_(request)) {
    return stream.Close(absl::UnavailableError("the tokenizer is lost"));
  }
  const uint64_t id = request.sequence_id();
  if (request.has_open()) {
    session.sequences[id].open = request.open();
    return;
  }
  v1::DetokenizeStreamResponse response;
  response.set_sequence_id(id);
  const auto found = session.sequences.find(id);
  if (found == session.sequences.end()) {
    if (request.has_finish()) return;
    response.set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
    response.set_error_message(absl::StrCat("sequence ", id, " is not open"));
    return stream.Send(std::move(response));
  }
  Session::Sequence& sequence = found->second;
  bool over = request.has_finish();
  response.set_finished(over);
  const size_t before = sequence.text.size();
  for (int32_t token : request.append().token_ids()) {
    sequence.text += FakeText({token});
    ++sequence.num_tokens;
    for (int i = 0; i < sequence.open.stop_strings_size() && !over; ++i) {
      const size_t at = sequence.text.find(sequence.open.stop_strings(i));
      if (at == std::string::npos) continue;
      sequence.text.resize(std::max(at, before));
      response.set_stop_string_index(i);
      over = true;
    }
    if (over) break;
  }
  response.set_text(sequence.text.substr(before));
  response.set_num_tokens(sequence.num_tokens);
  if (over) {
    ended_.insert(id);
    session.sequences.erase(found);
  }
  if (change_ != nullptr) change_(response);
  stream.Send(std::move(response));
}

}  // namespace sluice::testing
