// Runs conformance cases with clients/cpp; see the README of tests/conformance for what comes and goes.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clients/cpp/client.h"

namespace {

using nlohmann::json;
using sluice::client::CallOptions;
using sluice::client::Client;

void Say(const json& fields) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cout << fields.dump() << std::endl;
}

template <class Message>
Message RequestOf(const json& test) {
  Message message;
  const auto status =
      google::protobuf::util::JsonStringToMessage(test.at("request").dump(), &message);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return message;
}

template <class List>
std::vector<int> Ids(const List& ids) {
  return {ids.begin(), ids.end()};
}

template <class List>
json Positions(const List& entries) {
  json positions = json::array();
  for (const sluice::v1::PositionLogprobs& entry : entries) {
    json top = json::array();
    for (const auto& other : entry.top()) top.push_back(other.token_id());
    positions.push_back({{"logprob", entry.logprob()}, {"top", std::move(top)}});
  }
  return positions;
}

// What the library answers, in the words of the suite.
absl::StatusOr<json> Generate(Client& client, const json& test, const CallOptions& options) {
  const auto request = RequestOf<sluice::v1::GenerateRequest>(test);
  const size_t n = std::max(1, request.n());
  std::vector<std::string> texts(n);
  std::vector<std::vector<int>> ids(n);
  std::vector<json> logprobs(n, json::array());
  int count = 0;
  sluice::v1::Finished finished;
  sluice::client::Generation stream = client.Generate(request, options);
  while (const auto event = stream.Next()) {
    if (event->has_finished()) finished = event->finished();
    if (!event->has_chunk()) continue;
    const sluice::v1::Chunk& chunk = event->chunk();
    const size_t i = chunk.sequence();
    texts.at(i) += chunk.text();
    ids.at(i).insert(ids.at(i).end(), chunk.token_ids().begin(), chunk.token_ids().end());
    for (json& entry : Positions(chunk.logprobs())) logprobs.at(i).push_back(std::move(entry));
    if (++count == 3) Say({{"id", test.at("id")}, {"event", "chunk"}});
    if (count == test.value("cancel_after", -1)) return json{{"cancelled", true}};
  }
  if (!stream.status().ok()) return stream.status();
  json reasons = json::array();
  json stop_strings = json::array();
  for (const sluice::v1::FinishedSequence& end : finished.sequences()) {
    reasons.push_back(sluice::v1::FinishReason_Name(end.reason()));
    stop_strings.push_back(end.stop_string());
  }
  return json{{"texts", texts},
              {"token_ids", ids},
              {"logprobs", logprobs},
              {"reasons", std::move(reasons)},
              {"stop_strings", std::move(stop_strings)},
              {"prompt_tokens", finished.usage().num_prompt_tokens()},
              {"seed", std::to_string(finished.seed())}};
}

absl::StatusOr<json> Score(Client& client, const json& test, const CallOptions& options) {
  const auto score = client.Score(RequestOf<sluice::v1::ScoreRequest>(test), options);
  if (!score.ok()) return score.status();
  return json{{"token_ids", Ids(score->token_ids())},
              {"logprobs", Positions(score->logprobs())},
              {"mean_nll", score->mean_nll()}};
}

absl::StatusOr<json> Embed(Client& client, const json& test, const CallOptions& options) {
  const auto response = client.Embed(RequestOf<sluice::v1::EmbedRequest>(test), options);
  if (!response.ok()) return response.status();
  json embeddings = json::array();
  for (const auto& embedding : response->embeddings()) embeddings.push_back(embedding.values());
  return json{{"embeddings", std::move(embeddings)}};
}

absl::StatusOr<json> Rerank(Client& client, const json& test, const CallOptions& options) {
  const auto response = client.Rerank(RequestOf<sluice::v1::RerankRequest>(test), options);
  if (!response.ok()) return response.status();
  return json{{"scores", response->scores()}};
}

absl::StatusOr<json> Tokenize(Client& client, const json& test, const CallOptions& options) {
  sluice::v1::TokenizeRequest request;
  request.set_text(test.at("request").at("text").get<std::string>());
  const auto tokens = client.Tokenize(request, options);
  if (!tokens.ok()) return tokens.status();
  return json{{"token_ids", Ids(tokens->token_ids())}};
}

absl::StatusOr<json> Detokenize(Client& client, const json& test, const CallOptions& options) {
  const auto text = client.Detokenize(RequestOf<sluice::v1::DetokenizeRequest>(test), options);
  if (!text.ok()) return text.status();
  return json{{"text", text->text()}};
}

absl::StatusOr<json> Model(Client& client, const json&, const CallOptions& options) {
  const auto model = client.GetModel(options);
  if (!model.ok()) return model.status();
  return json{{"name", model->name()},
              {"vocabulary_size", model->vocabulary_size()},
              {"max_positions", model->max_positions()}};
}

absl::StatusOr<json> Status(Client& client, const json&, const CallOptions& options) {
  const auto status = client.GetStatus({}, options);
  if (!status.ok()) return status.status();
  return json{{"serving", status->serving()}};
}

void Run(Client& client, const json& test) {
  static const std::map<std::string, decltype(&Generate)> kOperations = {
      {"generate", &Generate},     {"score", &Score},  {"tokenize", &Tokenize},
      {"detokenize", &Detokenize}, {"embed", &Embed},  {"rerank", &Rerank},
      {"model", &Model},           {"status", &Status}};
  const CallOptions options = {.timeout = absl::Milliseconds(test.value("timeout_ms", 60'000))};
  const auto answer = kOperations.at(test.value("op", "generate"))(client, test, options);
  if (answer.ok()) return Say({{"id", test.at("id")}, {"result", *answer}});
  Say({{"id", test.at("id")},
       {"error",
        {{"code", absl::StatusCodeToString(answer.status().code())},
         {"message", std::string(answer.status().message())}}}});
}

sluice::client::ClientOptions OptionsOf(const json& settings) {
  sluice::client::ClientOptions options;
  options.token = settings.value("token", "");
  if (settings.contains("ca")) {
    std::stringstream authority;
    authority << std::ifstream(settings.at("ca").get<std::string>()).rdbuf();
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = authority.str();
    options.credentials = grpc::SslCredentials(tls);
  }
  if (!settings.value("retry", true)) {
    options.connect_timeout = options.resume_timeout = absl::ZeroDuration();
    options.refused_timeout = absl::ZeroDuration();
  }
  return options;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): what it is told amiss ends it, and says so
int main() {
  const json settings = json::parse(std::getenv("SLUICE_CLIENT"));
  const auto client = Client::Connect(settings.at("endpoints"), OptionsOf(settings));
  if (!client.ok()) {
    std::cerr << client.status() << std::endl;
    return 1;
  }
  std::vector<std::thread> running;
  for (std::string line; std::getline(std::cin, line);) {
    running.emplace_back([&client = **client, test = json::parse(line)] { Run(client, test); });
  }
  for (std::thread& thread : running) thread.join();
}
