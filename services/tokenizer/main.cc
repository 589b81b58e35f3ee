// sluice-tokenizer: serves a model's tokenizer.
#include "services/program/process.h"
#include "services/tokenizer/tokenizer_server.h"

int main(int argc, char** argv) {
  return sluice::RunProcess(
      argc, argv, sluice::kTokenizer, "Turns text into token ids and token ids into text.",
      [](const sluice::ProcessOptions& process) {
        return sluice::TokenizerServer::Start(
            {.model = process.model,
             .chat_template = process.values.Get<std::string>("chat_template"),
             .address = process.listen,
             .tls = process.tls,
             .hang_timeout = process.hang_timeout});
      });
}
