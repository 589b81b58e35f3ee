#include "kernels/sampling_options/sampling_check.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr float kMostBias = 100;
constexpr size_t kMostTokensOfWord = 64;

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

absl::Status Refuse(const std::string& name, const absl::AlphaNum& value,
                    absl::string_view accepted) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value.Piece(), "; accepted: ", accepted));
}

class Checker {
 public:
  Checker(const SamplingOptions& options, int64_t vocabulary_size, const std::string& prefix)
      : options_(options), vocabulary_size_(vocabulary_size), prefix_(prefix) {}

  absl::Status Check() const {
    for (const SamplingParameter& parameter : kSamplingParameters) {
      const absl::Status status = std::visit(
          [&](auto member) { return CheckValue(parameter, options_.*member); }, parameter.member);
      if (!status.ok()) return status;
    }
    return CheckTogether();
  }

 private:
  std::string Named(const char* name) const { return absl::StrCat(prefix_, name); }

  template <typename T>
  absl::Status CheckValue(const SamplingParameter& parameter, const T& value) const {
    const SamplingRange& range = parameter.range;
    if constexpr (IsVector<T>::value) {
      if (static_cast<double>(value.size()) > range.max) {
        return Refuse(absl::StrCat("the number of ", Named(parameter.name)), value.size(),
                      AcceptedText(parameter));
      }
      return CheckEntries(Named(parameter.name), value);
    } else {
      const auto number = static_cast<double>(value);
      const bool below = range.above_min ? !(number > range.min) : !(number >= range.min);
      if (!std::isfinite(number) || below || number > range.max) {
        return Refuse(Named(parameter.name), value, AcceptedText(parameter));
      }
      return absl::OkStatus();
    }
  }

  absl::Status CheckToken(const std::string& name, size_t index, int32_t id) const {
    if (id >= 0 && id < vocabulary_size_) return absl::OkStatus();
    return Refuse(absl::StrCat(name, "[", index, "]"), id,
                  absl::StrCat("0 to ", vocabulary_size_ - 1, ", the model's vocabulary"));
  }

  absl::Status CheckEntries(const std::string& name, const std::vector<int32_t>& ids) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (absl::Status status = CheckToken(name, i, ids[i]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status CheckEntries(const std::string& name, const std::vector<TokenBias>& biases) const {
    for (size_t i = 0; i < biases.size(); ++i) {
      if (absl::Status status = CheckToken(name, i, biases[i].id); !status.ok()) return status;
      if (!(std::abs(biases[i].bias) <= kMostBias)) {
        return Refuse(absl::StrCat(name, " of token ", biases[i].id), biases[i].bias,
                      absl::StrCat(-kMostBias, " to ", kMostBias));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckEntries(const std::string& name,
                            const std::vector<std::vector<int32_t>>& words) const {
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string word = absl::StrCat(name, "[", i, "]");
      if (words[i].empty() || words[i].size() > kMostTokensOfWord) {
        return Refuse(absl::StrCat("the number of tokens of ", word), words[i].size(),
                      absl::StrCat("1 to ", kMostTokensOfWord));
      }
      if (absl::Status status = CheckEntries(word, words[i]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status CheckTogether() const {
    if (options_.dynatemp_range > options_.temperature) {
      return Refuse(Named("dynatemp_range"), options_.dynatemp_range,
                    absl::StrCat("up to the temperature, which is ", options_.temperature));
    }
    if (options_.xtc_probability > 0 && options_.temperature == 0) {
      return Refuse(Named("xtc_probability"), options_.xtc_probability,
                    "0 where temperature is 0, which always takes the most probable token");
    }
    return CheckLists();
  }

  // The lists of tokens against each other.
  absl::Status CheckLists() const {
    std::vector<int32_t> allowed = options_.allowed_token_ids;
    std::vector<int32_t> banned = options_.banned_token_ids;
    std::sort(allowed.begin(), allowed.end());
    std::sort(banned.begin(), banned.end());
    const auto contains = [](const std::vector<int32_t>& sorted, int32_t id) {
      return std::binary_search(sorted.begin(), sorted.end(), id);
    };
    for (const int32_t id : banned) {
      if (contains(allowed, id)) return Contradiction(id, "allowed_token_ids", "banned_token_ids");
    }
    for (const TokenBias& bias : options_.logit_bias) {
      if (contains(banned, bias.id)) {
        return Contradiction(bias.id, "logit_bias", "banned_token_ids");
      }
      if (!allowed.empty() && !contains(allowed, bias.id)) {
        return absl::InvalidArgumentError(absl::StrCat("token ", bias.id, " is in ",
                                                       Named("logit_bias"), " but not in ",
                                                       Named("allowed_token_ids")));
      }
    }
    banned.erase(std::unique(banned.begin(), banned.end()), banned.end());
    if (static_cast<int64_t>(banned.size()) < vocabulary_size_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Named("banned_token_ids"), " has every token of the vocabulary"));
  }

  absl::Status Contradiction(int32_t id, const char* one, const char* other) const {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", id, " is both in ", Named(one), " and in ", Named(other)));
  }

  const SamplingOptions& options_;
  const int64_t vocabulary_size_;
  const std::string& prefix_;
};

}  // namespace

std::string AcceptedText(const SamplingParameter& parameter) {
  const SamplingRange& range = parameter.range;
  const bool is_float = std::holds_alternative<float SamplingOptions::*>(parameter.member);
  const bool is_list = !is_float &&
                       !std::holds_alternative<int32_t SamplingOptions::*>(parameter.member) &&
                       !std::holds_alternative<uint64_t SamplingOptions::*>(parameter.member);
  if (is_list) return absl::StrCat("up to ", range.max, " entries");
  if (std::holds_alternative<uint64_t SamplingOptions::*>(parameter.member)) {
    return "0 to 2^64 - 1";
  }
  const char* kind = is_float && std::isinf(range.max) ? "a finite number, " : "";
  if (std::isinf(range.max)) {
    return range.above_min ? absl::StrCat(kind, "above ", range.min)
                           : absl::StrCat(kind, range.min, " or more");
  }
  return range.above_min ? absl::StrCat("above ", range.min, ", up to ", range.max)
                         : absl::StrCat(range.min, " to ", range.max);
}

absl::Status CheckSamplingOptions(const SamplingOptions& options, int64_t vocabulary_size,
                                  const std::string& prefix) {
  return Checker(options, vocabulary_size, prefix).Check();
}

}  // namespace sluice
