#include "clients/hub/http_transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr long kMostRedirects = 8;
constexpr long kConnectSeconds = 20;
constexpr size_t kLongestMessage = 200;

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

CURL* NewHandle() {
  [[maybe_unused]] static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  return curl_easy_init();
}

std::string Printable(absl::string_view text) {
  std::string printable(text.substr(0, kLongestMessage));
  std::replace_if(
      printable.begin(), printable.end(),
      [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return printable;
}

}  // namespace

struct HttpTransfer::State {
  HttpTransferOptions options;
  std::unique_ptr<CURL, FreeHandle> curl{NewHandle()};

  // Of the GET that is under way.
  std::optional<ByteRange> range;
  HttpAnswer answer;
  bool other_range = false;  // of the answer
  const absl::FunctionRef<bool(absl::string_view)>* sink = nullptr;

  static size_t OnHeader(char* data, size_t size, size_t count, void* state) {
    static_cast<State*>(state)->ReadHeader(absl::string_view(data, size * count));
    return size * count;
  }
  static size_t OnBody(char* data, size_t size, size_t count, void* state) {
    return static_cast<State*>(state)->ReadBody(absl::string_view(data, size * count));
  }
  static int OnProgress(void* state, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& cancelled = static_cast<State*>(state)->options.cancelled;
    return cancelled && cancelled() ? 1 : 0;
  }

  void ReadHeader(absl::string_view line) {
    if (absl::StartsWith(line, "HTTP/")) answer = HttpAnswer();  // of the next answer
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    if (absl::EqualsIgnoreCase(parts.first, "content-range")) {
      const absl::string_view first = value.substr(0, value.find('-'));
      if (!absl::SimpleAtoi(absl::StripPrefix(first, "bytes "), &answer.range_begin)) {
        answer.range_begin = ~uint64_t{0};
      }
    } else if (int seconds = 0; absl::EqualsIgnoreCase(parts.first, "retry-after") &&
                                absl::SimpleAtoi(value, &seconds) && seconds >= 0) {
      answer.retry_after = absl::Seconds(seconds);
    } else if (absl::EqualsIgnoreCase(parts.first, "x-error-message")) {
      answer.message = Printable(value);
    }
  }

  size_t ReadBody(absl::string_view bytes) {
    const int status = Status();
    if (status != 200 && status != 206) return bytes.size();
    if (range.has_value() != (status == 206)) return 0;
    other_range = range.has_value() && answer.range_begin != range->offset;
    return !other_range && (*sink)(bytes) ? bytes.size() : 0;
  }

  int Status() const {
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    return static_cast<int>(status);
  }

  void Set(const std::string& url) {
    CURL* const handle = curl.get();
    curl_easy_reset(handle);
    curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "sluice");
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(handle, CURLOPT_MAXREDIRS, kMostRedirects);
    const char* const protocols = absl::StartsWith(url, "https:") ? "https" : "http,https";
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, protocols);
    curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                     static_cast<long>(absl::ToInt64Seconds(options.stall_timeout)));
    if (!options.token.empty()) {
      curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, options.token.c_str());
    }
    if (range.has_value()) {
      const std::string text = absl::StrCat(range->offset, "-", range->offset + range->length - 1);
      curl_easy_setopt(handle, CURLOPT_RANGE, text.c_str());
    }
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, OnHeader);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, OnBody);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, OnProgress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, this);
  }
};

HttpTransfer::HttpTransfer(HttpTransferOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}

HttpTransfer::~HttpTransfer() = default;

absl::StatusOr<HttpAnswer> HttpTransfer::Get(
    const std::string& url, const std::optional<ByteRange>& range,
    absl::FunctionRef<bool(absl::string_view bytes)> sink) {
  State& state = *state_;
  state.answer = HttpAnswer();
  state.sink = &sink;
  state.range = range;
  state.other_range = false;
  state.Set(url);
  const CURLcode code = curl_easy_perform(state.curl.get());
  state.answer.status = state.Status();
  const bool is_whole = range.has_value() && state.answer.status == 200;
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && is_whole)) return state.answer;
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("interrupted");
  if (state.other_range) return absl::UnavailableError(absl::StrCat(url, ": sent another range"));
  if (code == CURLE_WRITE_ERROR) return absl::AbortedError(absl::StrCat(url, ": not wanted"));
  return absl::UnavailableError(absl::StrCat(url, ": ", curl_easy_strerror(code)));
}

absl::Status StatusOfAnswer(const HttpAnswer& answer, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": the server answered ", answer.status,
                                        answer.message.empty() ? "" : ": ", answer.message);
  switch (answer.status) {
    case 401:
    case 403:
      return absl::PermissionDeniedError(text);
    case 404:
      return absl::NotFoundError(text);
    case 408:
    case 429:
      return absl::UnavailableError(text);
    default:
      return answer.status >= 500 ? absl::UnavailableError(text)
                                  : absl::FailedPreconditionError(text);
  }
}

}  // namespace sluice
