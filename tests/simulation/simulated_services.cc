#include "tests/simulation/simulated_services.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::simulation {
// ---- Stages ----

// The answer comes over a connection of its own, and counts once. Nobody times it out here: the
// caller must.
void SimulatedStageNetwork::Ask(Role, const std::string& address, absl::Duration,
                                InfoCallback callback) {
  const std::shared_ptr<Connection> connection =
      world_.network->Connect(host_, world_.host(address));
  const auto open = std::make_shared<bool>(true);
  connection->on_end[Connection::kClient] = [open, callback](const absl::Status& status) {
    if (std::exchange(*open, false)) callback(status);
  };
  const std::weak_ptr<Connection> weak = connection;
  connection->Send(Connection::kServer, [find = world_.find, address, weak, open, callback] {
    const StageProcess* process = find(address);
    const std::shared_ptr<Connection> connection = weak.lock();
    if (process == nullptr || connection == nullptr) return;
    connection->Send(Connection::kClient, [connection, open, callback, info = process->Info()] {
      if (std::exchange(*open, false)) callback(info);
    });
  });
}

absl::StatusOr<std::unique_ptr<StageNetwork::Stream>> SimulatedStageNetwork::Run(
    Role, const std::string& address, Stream::Handler handler) {
  auto run = std::make_shared<StageRun>();
  run->connection = world_.network->Connect(host_, world_.host(address));
  run->handler = std::move(handler);
  run->connection->Send(Connection::kServer, [find = world_.find, address, run] {
    if (StageProcess* process = find(address)) process->Serve(run);
  });
  return std::make_unique<SimulatedStream<v1::StageRunRequest, v1::StageRunResponse>>(run);
}

// ---- The tokenizer ----

namespace {

using Detokenize = Duplex<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;

struct TextState {
  v1::DetokenizeOpen open;
  uint64_t num_tokens = 0;
};

class TokenizerSession {
 public:
  void Handle(const std::shared_ptr<Detokenize>& stream,
              const v1::DetokenizeStreamRequest& request) {
    const uint64_t id = request.sequence_id();
    if (request.has_open()) {
      sequences_[id].open = request.open();
      return;
    }
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return;
    v1::DetokenizeStreamResponse response;
    response.set_sequence_id(id);
    if (request.has_finish()) response.set_finished(true);
    for (const int32_t token : request.append().token_ids()) {
      if (response.has_stop_string_index()) break;
      Append(found->second, token, response);
    }
    response.set_num_tokens(found->second.num_tokens);
    if (response.finished() || response.has_stop_string_index()) sequences_.erase(found);
    Detokenize::SendResponse(stream, std::move(response));
  }

 private:
  static void Append(TextState& state, int32_t token, v1::DetokenizeStreamResponse& response) {
    ++state.num_tokens;
    for (int i = 0; i < state.open.stop_strings_size(); ++i) {
      if (state.open.stop_strings(i) != TextOf(token)) continue;
      response.set_stop_string_index(i);
      return;
    }
    response.set_text(response.text() + TextOf(token));
  }

  std::map<uint64_t, TextState> sequences_;
};

}  // namespace

std::string TextOf(int32_t token) { return absl::StrCat("<", token, ">"); }

OpenDetokenizeStream DetokenizeFrom(Network* network, HostId host, HostId tokenizer) {
  return [=](DetokenizeStream::Handler handler) -> std::unique_ptr<DetokenizeStream> {
    auto stream = std::make_shared<Detokenize>();
    stream->connection = network->Connect(host, tokenizer);
    stream->handler = std::move(handler);
    const std::weak_ptr<Detokenize> weak = stream;
    auto session = std::make_shared<TokenizerSession>();
    stream->on_request = [weak, session](const v1::DetokenizeStreamRequest& request) {
      if (const auto stream = weak.lock()) session->Handle(stream, request);
    };
    return std::make_unique<
        SimulatedStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>>(stream);
  };
}

}  // namespace sluice::simulation
