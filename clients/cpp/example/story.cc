// Writes a story as it comes: story [ENDPOINT[,ENDPOINT...]].
#include <sluice/client.h>

#include <iostream>

int main(int argc, char** argv) {
  const auto client = sluice::client::Client::Connect(argc > 1 ? argv[1] : "127.0.0.1:8700");
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  sluice::v1::GenerateRequest request;
  request.set_text("Once upon a time");
  request.set_max_tokens(60);
  sluice::client::Generation story = (*client)->Generate(request);
  while (const auto event = story.Next()) std::cout << event->chunk().text() << std::flush;
  std::cout << std::endl;
  if (story.status().ok()) return 0;
  std::cerr << story.status() << "\n";
  return 1;
}
