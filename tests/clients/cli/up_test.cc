// `sluice up` with shell scripts for the services and a service of the test's own in the place of
// the orchestrator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "clients/cli/event_fd.h"
#include "clients/cli/health_probe.h"
#include "clients/cli/listen_port.h"
#include "services/process/termination_log.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Collects what is written and lets another thread wait for the end of a line.
class WatchedBuffer : public std::streambuf {
 public:
  std::string WaitForLine() {
    const absl::MutexLock lock(&mutex_);
    const auto has_line = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return absl::StrContains(text_, '\n');
    };
    mutex_.Await(absl::Condition(&has_line));
    return text_;
  }

 protected:
  int_type overflow(int_type c) override {
    const absl::MutexLock lock(&mutex_);
    text_ += static_cast<char>(c);
    return c;
  }
  std::streamsize xsputn(const char* bytes, std::streamsize size) override {
    const absl::MutexLock lock(&mutex_);
    text_.append(bytes, size);
    return size;
  }

 private:
  absl::Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

// A folder with a model and, in bin, a program for every service, which does nothing but wait
// unless a test replaces it.
class UpTest : public ::testing::Test {
 protected:
  UpTest() {
    folder_.Write("config.json", TinyLlamaConfig());
    folder_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
    std::filesystem::create_directory(folder_.PathOf("bin"));
    for (const char* service : {"tokenizer", "embedding", "shard", "sampler", "orchestrator"}) {
      Program(service, "while :; do read -r line <$0.never; done");
      EXPECT_EQ(mkfifo((PathOf(service) + ".never").c_str(), 0600), 0);
    }
    fake_.environment.executable = folder_.PathOf("bin/sluice");
  }

  std::string PathOf(const std::string& service) { return folder_.PathOf("bin/sluice-" + service); }

  void Program(const std::string& service, const std::string& body) {
    folder_.Write("bin/sluice-" + service, "#!/bin/sh\n" + body + "\n");
    EXPECT_EQ(chmod(PathOf(service).c_str(), 0700), 0);
  }

  int Up(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"up", "--model", folder_.path(), "--port", "0"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return fake_.Run(arguments);
  }

  const TempFolder folder_;
  FakeEnvironment fake_;
};

TEST_F(UpTest, SaysReadyOnceTheServerServesAndStopsOnRequest) {
  // The orchestrator's program tells its arguments; the server listens where they say.
  Program("orchestrator", "echo $* >$0.fifo; while :; do read -r line <$0.never; done");
  const std::string fifo = PathOf("orchestrator") + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  WatchedBuffer out;
  fake_.environment.out.rdbuf(&out);

  std::string ready;
  std::string address;
  std::string health;
  std::string sockets;
  std::thread other([&] {
    std::string line;
    std::ifstream stream(fifo);
    std::getline(stream, line);
    const std::vector<std::string> arguments = absl::StrSplit(line, ' ');
    for (size_t i = 0; i + 1 < arguments.size(); ++i) {
      if (arguments[i] == "--listen") address = arguments[i + 1];
      if (arguments[i] == "--health_listen") health = arguments[i + 1];
      if (arguments[i] == "--sampler") sockets = arguments[i + 1].substr(5);
    }
    sockets = std::filesystem::path(sockets).parent_path().string();
    EXPECT_TRUE(std::filesystem::is_directory(sockets)) << sockets;
    struct stat info = {};
    EXPECT_EQ(stat(sockets.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    FakePipeline server(DefaultAnswers(), address);
    server.ServeHealthOn(health);
    server.SetServing(true);
    ready = out.WaitForLine();
    EXPECT_TRUE(fake_.interrupt.Request(130));
  });
  EXPECT_EQ(Up({"--tp", "2"}), 0);
  other.join();
  EXPECT_EQ(ready, absl::StrCat("ready ", address, "\n"));
  EXPECT_FALSE(std::filesystem::exists(sockets));
}

TEST_F(UpTest, GivesUpWhereAServiceEndsAgainAndAgain) {
  Program("sampler", "exit 1");
  EXPECT_EQ(Up({}), 1);
  EXPECT_THAT(fake_.out.str(), IsEmpty());
  EXPECT_THAT(fake_.err.str(), HasSubstr("sampler ended 5 times before the pipeline was ready"));
}

// Another pipeline was quicker to listen where the orchestrator was to: that it serves says
// nothing.
TEST_F(UpTest, TakesNoOtherServerForItsOrchestrator) {
  Program("orchestrator", "if mkdir $0.first; then echo $* >$0.fifo; fi; exit 1");
  const std::string fifo = PathOf("orchestrator") + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::unique_ptr<FakePipeline> winner;
  std::thread other([&] {
    std::string line;
    std::ifstream stream(fifo);
    std::getline(stream, line);
    const std::vector<std::string> arguments = absl::StrSplit(line, ' ');
    for (size_t i = 0; i + 1 < arguments.size() && winner == nullptr; ++i) {
      if (arguments[i] != "--listen") continue;
      winner = std::make_unique<FakePipeline>(DefaultAnswers(), arguments[i + 1]);
      winner->SetServing(true);
    }
  });
  EXPECT_EQ(Up({}), 1);
  other.join();
  EXPECT_THAT(fake_.out.str(), IsEmpty());
  EXPECT_THAT(fake_.err.str(), HasSubstr("orchestrator ended 5 times"));
}

// The same of the gateway: what another one serves at its port is not this pipeline.
TEST_F(UpTest, TakesNoOtherServerForItsGateway) {
  Program("orchestrator", "echo $* >$0.fifo; while :; do read -r line <$0.never; done");
  const std::string fifo = PathOf("orchestrator") + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  Program("gateway", "if mkdir $0.first; then echo $* >$0.fifo; fi; exit 1");
  const std::string gateway_fifo = PathOf("gateway") + ".fifo";
  ASSERT_EQ(mkfifo(gateway_fifo.c_str(), 0600), 0);
  const auto value_of = [](const std::string& path, const std::string& flag) {
    std::string line;
    std::ifstream stream(path);
    std::getline(stream, line);
    const std::vector<std::string> arguments = absl::StrSplit(line, ' ');
    const auto found = std::find(arguments.begin(), arguments.end(), flag);
    return found == arguments.end() ? "" : *(found + 1);
  };
  std::unique_ptr<FakePipeline> own;
  std::unique_ptr<FakePipeline> winner;
  std::thread other([&] {
    own = std::make_unique<FakePipeline>(DefaultAnswers());
    own->ServeHealthOn(value_of(fifo, "--health_listen"));
    own->SetServing(true);
    winner = std::make_unique<FakePipeline>(DefaultAnswers(), value_of(gateway_fifo, "--listen"));
  });
  EXPECT_EQ(Up({"--http_port", "0"}), 1);
  other.join();
  EXPECT_THAT(fake_.out.str(), IsEmpty());
  EXPECT_THAT(fake_.err.str(), HasSubstr("gateway ended 5 times before the pipeline was ready"));
}

TEST_F(UpTest, RefusesATokenizerThatCannotBeRead) {
  std::filesystem::remove_all(folder_.PathOf("bin"));
  for (const auto& [name, text] :
       {std::pair("tokenizer.json", "{\"model\": {\"type\""), std::pair("tokenizer.json", "{}"),
        std::pair("tokenizer_config.json", "{\"bos_tok")}) {
    FakeEnvironment fake;
    folder_.Write(name, text);
    EXPECT_EQ(fake.Run({"up", "--model", folder_.path(), "--port", "0"}), 1);
    EXPECT_THAT(fake.err.str(), HasSubstr(name));
    EXPECT_THAT(fake.err.str(), HasSubstr("[INVALID_ARGUMENT]"));
    std::filesystem::remove(folder_.PathOf(name));
  }
}

TEST_F(UpTest, PutsItsSocketsWhereTemporaryFilesGo) {
  std::filesystem::create_directory(folder_.PathOf("tmp"));
  Program("orchestrator", "echo $* >$0.arguments; exit 1");
  fake_.environment.temp_folder = folder_.PathOf("tmp");
  EXPECT_EQ(Up({}), 1);
  std::ifstream stream(PathOf("orchestrator") + ".arguments");
  std::string line;
  std::getline(stream, line);
  EXPECT_THAT(line, HasSubstr("--tokenizer unix:" + folder_.PathOf("tmp") + "/sluice-"));
  FakeEnvironment fake;
  fake.environment.executable = fake_.environment.executable;
  fake.environment.temp_folder = "/tmp/" + std::string(80, 'x');
  EXPECT_EQ(fake.Run({"up", "--model", folder_.path(), "--port", "0"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("accepted: up to 107 [INVALID_ARGUMENT]"));
}

TEST_F(UpTest, RefusesAPortInUse) {
  FakePipeline other(DefaultAnswers());
  const std::string port = other.endpoint().substr(other.endpoint().find(':') + 1);
  EXPECT_EQ(Up({"--port", port}), 1);
  EXPECT_EQ(fake_.err.str(), "sluice: cannot listen on 127.0.0.1:" + port +
                                 ": Address already in use [UNAVAILABLE]\n");
}

TEST_F(UpTest, SaysInTheTerminationLogWhyItEnds) {
  const std::string log = folder_.PathOf("end");
  const auto said = [&log] {
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    return text.str();
  };
  const auto up = [&](const std::vector<std::string>& flags) {
    FakeEnvironment fake;
    fake.environment.executable = fake_.environment.executable;
    std::vector<std::string> arguments = {"up", "--termination_log", log, "--port", "0"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return fake.Run(arguments);
  };
  EXPECT_EQ(up({"--model", folder_.PathOf("nowhere")}), 1);
  EXPECT_THAT(said(), HasSubstr(folder_.PathOf("nowhere")));
  EXPECT_EQ(up({"--model", folder_.path(), "--host", "0.0.0.0"}), 2);
  EXPECT_THAT(said(), HasSubstr("0.0.0.0"));
  EXPECT_EQ(up({"--modle", "x"}), 2);
  EXPECT_THAT(said(), HasSubstr("--modle"));
  // What a process says of itself is not lost with it.
  Program("sampler",
          "while [ $# -gt 1 ]; do if [ $1 = --termination_log ]; then echo 'no certificate' >$2; "
          "fi; shift; done; exit 1");
  EXPECT_EQ(up({"--model", folder_.path()}), 1);
  EXPECT_EQ(said(),
            "sampler ended 5 times before the pipeline was ready, last with exit status 1: no "
            "certificate\n");
  EXPECT_TRUE(SetTerminationLog("").ok());
}

TEST_F(UpTest, RefusesAModelThatTheMemoryLimitCannotHold) {
  fake_.environment.memory_limit = 600 << 20;
  EXPECT_EQ(Up({"--kv_cache_mib", "600"}), 1);
  EXPECT_THAT(fake_.err.str(),
              HasSubstr("600.0 MiB of keys and values, where the memory limit of this container is "
                        "600.0 MiB"));
  EXPECT_THAT(fake_.err.str(),
              HasSubstr("or --kv_cache_mib of less than 599 [RESOURCE_EXHAUSTED]"));
  // What it would have refused next says that it went on.
  Program("sampler", "exit 1");
  FakeEnvironment fits;
  fits.environment.executable = fake_.environment.executable;
  fits.environment.memory_limit = 600 << 20;
  EXPECT_EQ(fits.Run({"up", "--model", folder_.path(), "--port", "0", "--kv_cache_mib", "599"}), 1);
  EXPECT_THAT(fits.err.str(), HasSubstr("sampler ended 5 times"));
}

// Nothing is started for any of these: the programs are not there.
TEST_F(UpTest, RefusesABadModelBeforeItStartsAnything) {
  std::filesystem::remove_all(folder_.PathOf("bin"));
  EXPECT_EQ(Up({"--tp", "3"}), 1);
  EXPECT_THAT(fake_.err.str(), HasSubstr("[INVALID_ARGUMENT]"));

  FakeEnvironment missing;
  EXPECT_EQ(missing.Run({"up", "--model", folder_.PathOf("nowhere")}), 1);
  EXPECT_THAT(missing.err.str(), HasSubstr(folder_.PathOf("nowhere")));
  EXPECT_THAT(missing.err.str(), HasSubstr("[NOT_FOUND]"));

  folder_.Write("model.safetensors", "short");
  FakeEnvironment truncated;
  EXPECT_EQ(truncated.Run({"up", "--model", folder_.path()}), 1);
  EXPECT_THAT(truncated.err.str(), HasSubstr("model.safetensors"));
}

TEST_F(UpTest, NamesAProgramThatIsMissing) {
  std::filesystem::remove(PathOf("shard"));
  EXPECT_EQ(Up({}), 1);
  EXPECT_EQ(fake_.err.str(), "sluice: cannot execute " + PathOf("shard") +
                                 ": No such file or directory [NOT_FOUND]\n");
}

TEST(ListenPortTest, FindsAFreePortAndNamesABusyOne) {
  const absl::StatusOr<int> port = FindListenPort("127.0.0.1", 0);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_GT(*port, 0);
  EXPECT_EQ(*FindListenPort("127.0.0.1", *port), *port);
  EXPECT_EQ(FindListenPort("192.0.2.1", 0).status().code(), absl::StatusCode::kUnavailable);
}

TEST(HealthProbeTest, StopsWithoutAnAnswer) {
  const absl::StatusOr<int> port = FindListenPort("127.0.0.1", 0);
  ASSERT_TRUE(port.ok()) << port.status();
  const HealthProbe probe({absl::StrCat("127.0.0.1:", *port)});
  EXPECT_GE(probe.fd(), 0);
}

TEST(HealthProbeTest, WaitsForEachOfSeveral) {
  FakePipeline first(DefaultAnswers());
  FakePipeline second(DefaultAnswers());
  first.SetServing(true);
  second.SetServing(false);
  const HealthProbe probe({first.endpoint(), second.endpoint()});
  pollfd serving = {probe.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&serving, 1, /*timeout=*/200), 0);
  second.SetServing(true);
  EXPECT_EQ(poll(&serving, 1, /*timeout=*/10'000), 1);
}

TEST_F(UpTest, RefusesOptionsThatLackOrExcludeAnother) {
  for (const char* flag :
       {"--cors_origin", "--tool_parser", "--max_body_mib", "--http_hosts", "--batch_dir"}) {
    EXPECT_EQ(Up({flag, flag == std::string("--tool_parser") ? "none" : "2"}), 2);
    EXPECT_THAT(fake_.err.str(),
                HasSubstr(absl::StrCat(flag, " is about HTTP, which needs --http_port")));
  }
  for (const char* flag : {"--batch_token_file", "--batch_concurrency", "--batch_quota_mib"}) {
    EXPECT_EQ(Up({flag, "2"}), 2);
    EXPECT_THAT(fake_.err.str(),
                HasSubstr(absl::StrCat(flag, " is about batches, which need --batch_dir")));
  }
  EXPECT_EQ(Up({"--http_port", "0", "--batch_dir", "b", "--tokens", "t"}), 2);
  EXPECT_THAT(fake_.err.str(), HasSubstr("--batch_dir with --tokens needs --batch_token_file"));
  EXPECT_EQ(Up({"--api_key", "a", "--tokens", "b"}), 2);
  EXPECT_THAT(fake_.err.str(), HasSubstr("--api_key and --tokens were both given"));
  EXPECT_EQ(Up({"--api_key="}), 2);
  EXPECT_THAT(fake_.err.str(), HasSubstr("--api_key: the key is empty"));
}

}  // namespace
}  // namespace sluice::testing
