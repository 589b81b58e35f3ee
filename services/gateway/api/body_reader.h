// Reads the bodies of requests: JSON, and what an API makes of it. Large ones on a thread of their own,
// one at a time, tenants in rotation, so that neither the loop nor another tenant's body waits for
// more than one of them. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/http/loop.h"

namespace sluice::gateway {

class BodyReader {
 public:
  // What reads a body and keeps what it made of it; the second of its text.
  using Read = std::function<absl::Status(const nlohmann::json& body)>;
  using ReadText = std::function<absl::Status(absl::string_view body)>;

  BodyReader() = default;
  ~BodyReader() { Shutdown(); }
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  // Parses `body`, calls `read`, and then `done` with its status, or with INVALID_ARGUMENT where the
  // body is no JSON. On `loop`'s thread, which calls this, before it returns where the body is small;
  // else `read` on another, and `done` on the loop later. `body` stays valid until `done`.
  void Start(http::Loop& loop, const std::string& tenant, absl::string_view body, Read read,
             std::function<void(const absl::Status&)> done);
  // The same without parsing it.
  void StartText(http::Loop& loop, const std::string& tenant, absl::string_view body, ReadText read,
                 std::function<void(const absl::Status&)> done);

  // Drops what waits, and waits for what is under way. No large body is read from then on.
  void Shutdown();

 private:
  struct Task {
    http::Loop* loop;
    absl::string_view body;
    ReadText read;
    std::function<void(const absl::Status&)> done;
  };

  void Run();

  std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  std::map<std::string, std::deque<Task>> waiting_;  // by tenant; none empty
  std::string last_tenant_;
  bool stopping_ = false;
  std::thread thread_;  // once there was a large body
};

}  // namespace sluice::gateway
