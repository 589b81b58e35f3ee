#include "services/messages/sampling_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <algorithm>

#include "kernels/check.h"

namespace sluice {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

const FieldDescriptor* FieldOf(const SamplingParameter& parameter) {
  const FieldDescriptor* field = v1::SamplingOptions::descriptor()->FindFieldByName(parameter.name);
  SLUICE_CHECK(field != nullptr);
  return field;
}

void Set(v1::SamplingOptions& message, const FieldDescriptor* field, float value) {
  message.GetReflection()->SetFloat(&message, field, value);
}
void Set(v1::SamplingOptions& message, const FieldDescriptor* field, int32_t value) {
  message.GetReflection()->SetInt32(&message, field, value);
}
void Set(v1::SamplingOptions& message, const FieldDescriptor* field, uint64_t value) {
  message.GetReflection()->SetUInt64(&message, field, value);
}
void Set(v1::SamplingOptions& message, const FieldDescriptor* field,
         const std::vector<int32_t>& ids) {
  auto list = message.GetReflection()->GetMutableRepeatedFieldRef<int32_t>(&message, field);
  list.Clear();
  for (const int32_t id : ids) list.Add(id);
}
void Set(v1::SamplingOptions& message, const FieldDescriptor*,
         const std::vector<TokenBias>& biases) {
  message.clear_logit_bias();
  for (const TokenBias& bias : biases) (*message.mutable_logit_bias())[bias.id] = bias.bias;
}

void Set(v1::SamplingOptions& message, const FieldDescriptor*,
         const std::vector<std::vector<int32_t>>& words) {
  message.clear_bad_words_ids();
  for (const std::vector<int32_t>& word : words) {
    message.add_bad_words_ids()->mutable_token_ids()->Add(word.begin(), word.end());
  }
}

void Get(const v1::SamplingOptions& message, const FieldDescriptor* field, float& value) {
  value = message.GetReflection()->GetFloat(message, field);
}
void Get(const v1::SamplingOptions& message, const FieldDescriptor* field, int32_t& value) {
  value = message.GetReflection()->GetInt32(message, field);
}
void Get(const v1::SamplingOptions& message, const FieldDescriptor* field, uint64_t& value) {
  value = message.GetReflection()->GetUInt64(message, field);
}
void Get(const v1::SamplingOptions& message, const FieldDescriptor* field,
         std::vector<int32_t>& ids) {
  const auto list = message.GetReflection()->GetRepeatedFieldRef<int32_t>(message, field);
  ids.assign(list.begin(), list.end());
}
// By ascending id: a map has no order.
void Get(const v1::SamplingOptions& message, const FieldDescriptor*,
         std::vector<TokenBias>& biases) {
  biases.clear();
  for (const auto& [id, bias] : message.logit_bias()) biases.push_back({id, bias});
  std::sort(biases.begin(), biases.end(),
            [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
}

void Get(const v1::SamplingOptions& message, const FieldDescriptor*,
         std::vector<std::vector<int32_t>>& words) {
  words.clear();
  for (const v1::TokenSequence& word : message.bad_words_ids()) {
    words.emplace_back(word.token_ids().begin(), word.token_ids().end());
  }
}

bool IsSet(const v1::SamplingOptions& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  return field->is_repeated() ? reflection.FieldSize(message, field) > 0
                              : reflection.HasField(message, field);
}

}  // namespace

void SetField(const SamplingParameter& parameter, const SamplingOptions& options,
              v1::SamplingOptions& message) {
  std::visit([&](auto member) { Set(message, FieldOf(parameter), options.*member); },
             parameter.member);
}

v1::SamplingOptions ToMessage(const SamplingOptions& options) {
  static const SamplingOptions& neutral = *new SamplingOptions();
  v1::SamplingOptions message;
  for (const SamplingParameter& parameter : kSamplingParameters) {
    const bool is_neutral = std::visit(
        [&](auto member) { return options.*member == neutral.*member; }, parameter.member);
    if (!is_neutral) SetField(parameter, options, message);
  }
  return message;
}

SamplingOptions Merged(SamplingOptions defaults, const v1::SamplingOptions& message) {
  for (const SamplingParameter& parameter : kSamplingParameters) {
    const FieldDescriptor* field = FieldOf(parameter);
    if (!IsSet(message, field)) continue;
    std::visit([&](auto member) { Get(message, field, defaults.*member); }, parameter.member);
  }
  return defaults;
}

}  // namespace sluice
