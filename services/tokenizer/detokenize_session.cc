#include "services/tokenizer/detokenize_session.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/utf8_text.h"

namespace sluice {
namespace {

constexpr int kMaxKeptSpecialTokens = 64;

}  // namespace

std::optional<v1::DetokenizeStreamResponse> DetokenizeSession::HandleAll(
    const v1::DetokenizeStreamRequest& request) {
  std::optional<v1::DetokenizeStreamResponse> answers = Handle(request);
  for (const v1::DetokenizeStreamRequest& other : request.others()) {
    std::optional<v1::DetokenizeStreamResponse> answer = Handle(other);
    if (!answer.has_value()) continue;
    if (answers.has_value()) {
      *answers->add_others() = *std::move(answer);
    } else {
      answers = std::move(answer);
    }
  }
  return answers;
}

std::optional<v1::DetokenizeStreamResponse> DetokenizeSession::Handle(
    const v1::DetokenizeStreamRequest& request) {
  const uint64_t id = request.sequence_id();
  v1::DetokenizeStreamResponse response;
  response.set_sequence_id(id);
  absl::Status status;
  switch (request.request_case()) {
    case v1::DetokenizeStreamRequest::kOpen:
      status = Open(id, request.open());
      if (status.ok()) return std::nullopt;
      break;
    case v1::DetokenizeStreamRequest::kAppend:
      status = Append(id, request.append(), response);
      break;
    case v1::DetokenizeStreamRequest::kFinish:
      if (!sequences_.contains(id)) return std::nullopt;
      status = Finish(id, response);
      break;
    case v1::DetokenizeStreamRequest::REQUEST_NOT_SET:
      status = absl::InvalidArgumentError("a request without open, append or finish");
      break;
  }
  if (!status.ok()) {
    sequences_.erase(id);
    response.set_error_code(status.raw_code());
    response.set_error_message(CleanUtf8(status.message()));
  }
  return response;
}

absl::Status DetokenizeSession::Open(uint64_t id, const v1::DetokenizeOpen& open) {
  if (sequences_.contains(id)) {
    return absl::AlreadyExistsError(absl::StrCat("sequence ", id, " is open already"));
  }
  if (sequences_.size() >= kMaxSequences) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a stream carries at most ", kMaxSequences, " sequences at once"));
  }
  if (open.kept_special_tokens_size() > kMaxKeptSpecialTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("kept_special_tokens has ", open.kept_special_tokens_size(),
                     " entries; accepted: up to ", kMaxKeptSpecialTokens));
  }
  const std::vector<std::string> strings(open.stop_strings().begin(), open.stop_strings().end());
  absl::StatusOr<StopStrings> stop_strings = StopStrings::Create(strings);
  if (!stop_strings.ok()) return stop_strings.status();
  auto sequence = std::make_unique<Sequence>();
  sequence->stop_strings = *std::move(stop_strings);
  TextStream::Options options;
  options.decode.skip_special = open.skip_special_tokens();
  for (const std::string& token : open.kept_special_tokens()) {
    const std::optional<TokenId> id = tokenizer_.FindToken(token);
    if (id.has_value()) options.decode.kept_special.push_back(*id);
  }
  std::sort(options.decode.kept_special.begin(), options.decode.kept_special.end());
  options.decode.skip_unknown = true;  // a model may have more ids than its tokenizer has tokens
  options.stop.include_stop_string = open.include_stop_string();
  options.min_tokens = open.min_tokens();
  sequence->text.emplace(tokenizer_, sequence->stop_strings, options);
  const absl::Status status = sequence->text->Prime(open.context_token_ids());
  if (status.ok()) sequences_.emplace(id, std::move(sequence));
  return status;
}

absl::Status DetokenizeSession::Append(uint64_t id, const v1::DetokenizeAppend& append,
                                       v1::DetokenizeStreamResponse& response) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not open"));
  }
  TextStream& text = *found->second->text;
  absl::StatusOr<TextStream::Result> result = text.Append(append.token_ids());
  if (!result.ok()) return result.status();
  response.set_text(std::move(result->text));
  response.set_num_tokens(text.num_tokens());
  if (result->stopped()) {
    response.set_stop_string_index(result->stop_index);
    sequences_.erase(found);
  }
  return absl::OkStatus();
}

absl::Status DetokenizeSession::Finish(uint64_t id, v1::DetokenizeStreamResponse& response) {
  const auto found = sequences_.find(id);
  TextStream& text = *found->second->text;
  absl::StatusOr<TextStream::Result> result = text.Finish();
  if (!result.ok()) return result.status();
  response.set_text(std::move(result->text));
  response.set_num_tokens(text.num_tokens());
  if (result->stopped()) response.set_stop_string_index(result->stop_index);
  response.set_finished(true);
  sequences_.erase(found);
  return absl::OkStatus();
}

}  // namespace sluice
