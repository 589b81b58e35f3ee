// The gRPC face of the tokenizer: decodes, calls the library, encodes. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/tokenizer.h"
#include "services/watch/progress_watch.h"
#include "services/work/fair_work.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

class TokenizerService final : public v1::TokenizerService::CallbackService {
 public:
  struct Model {
    std::string name;
    std::string tokenizer_digest;
  };

  // Borrows the tokenizer; null for a model folder without one, which serves token ids alone. Chat
  // templates that do not compile are said to be so when they are asked for. Without `progress`
  // nobody watches the calls.
  TokenizerService(Model model, const Tokenizer* tokenizer, ProgressWatch* progress = nullptr);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerBidiReactor<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>*
  DetokenizeStream(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ApplyChatTemplate(grpc::CallbackServerContext* context,
                                              const v1::ApplyChatTemplateRequest* request,
                                              v1::ApplyChatTemplateResponse* response) override;
  grpc::ServerUnaryReactor* GetVocabulary(grpc::CallbackServerContext* context,
                                          const v1::GetVocabularyRequest* request,
                                          v1::GetVocabularyResponse* response) override;
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetTokenizerInfoRequest* request,
                                    v1::GetTokenizerInfoResponse* response) override;

 private:
  // Called between the pieces of a call's work; false where the work is to end.
  using Checkpoint = Pace::Checkpoint;

  // Answers a call of so many bytes with what `work` gives, among those of all tenants by weight.
  // The work ends at the next checkpoint once the caller has left or its deadline has passed, or
  // with RESOURCE_EXHAUSTED once it has taken what its request may. RESOURCE_EXHAUSTED also where
  // its tenant has too many waiting.
  grpc::ServerUnaryReactor* Queue(grpc::CallbackServerContext* context, size_t num_bytes,
                                  std::function<absl::Status(const Checkpoint&)> work);
  // The same at once, on the thread of the call, for work that takes no longer than a slice, which
  // is watched by this name.
  grpc::ServerUnaryReactor* AnswerAtOnce(grpc::CallbackServerContext* context, const char* name,
                                         const std::function<absl::Status()>& work) const;
  // ABORTED where the caller expects another tokenizer, FAILED_PRECONDITION without one.
  absl::Status CheckCall(const grpc::CallbackServerContext& context) const;
  absl::Status DoTokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse& response,
                          const Checkpoint* checkpoint) const;
  absl::Status DoDetokenize(const v1::DetokenizeRequest& request, v1::DetokenizeResponse& response,
                            const Checkpoint* checkpoint) const;
  absl::Status DoApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                   v1::ApplyChatTemplateResponse& response,
                                   const Checkpoint& checkpoint) const;
  absl::Status DoGetVocabulary(const v1::GetVocabularyRequest& request,
                               v1::GetVocabularyResponse& response) const;

  const Model model_;
  const Tokenizer* const tokenizer_;
  ProgressWatch* const progress_;
  const ChatTemplates chat_templates_;
  FairWork work_;  // last: its threads use what is above
};

}  // namespace sluice
