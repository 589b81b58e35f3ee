// Which adapters are known by which name, from lists, calls and a watched folder.

#include "orchestrator/adapters/adapter_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "orchestrator/adapters/adapter_folder.h"
#include "services/model/adapter_id.h"
#include "services/options/adapter_list.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class AdapterRegistryTest : public ::testing::Test {
 protected:
  AdapterRegistryTest() {
    model_.Write("config.json", TinyLlamaConfig());
    model_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
    registry_ = *AdapterRegistry::Create(model_.path(), *LoadModelConfig(model_.path()), "tiny");
  }

  // Writes an adapter into a subfolder of `adapters_`, with `outputs` rows where the model has 8.
  std::string WriteAdapter(const std::string& name, uint64_t rank = 2, uint64_t outputs = 8) {
    const std::string path = adapters_.PathOf(name);
    fs::create_directories(path);
    const std::string module = "base_model.model.model.layers.1.self_attn.k_proj";
    std::ofstream(path + "/adapter_model.safetensors")
        << SafetensorsBytes({MakeTensor(module + ".lora_A.weight", DType::kF32, {rank, 16}),
                             MakeTensor(module + ".lora_B.weight", DType::kF32, {outputs, rank})});
    std::ofstream(path + "/adapter_config.json")
        << R"({"peft_type": "LORA", "lora_alpha": 2, "bias": "none", "r": )" << rank << "}";
    return path;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const AdapterDescription& adapter : registry_->List()) names.push_back(adapter.name);
    return names;
  }

  TempFolder model_, adapters_;
  std::unique_ptr<AdapterRegistry> registry_;
};

TEST_F(AdapterRegistryTest, AnIdStandsForOneContent) {
  const std::string first = WriteAdapter("first"), second = WriteAdapter("second");
  ASSERT_TRUE(registry_->Load("x", first, false).ok());
  const std::string id = *registry_->IdOf("x");
  EXPECT_EQ(FolderOfAdapter(id), first);
  EXPECT_EQ(registry_->Load("x", second, false).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*registry_->IdOf("x"), id);
  ASSERT_TRUE(registry_->Load("x", second, true).ok());
  EXPECT_EQ(FolderOfAdapter(*registry_->IdOf("x")), second);
  ASSERT_TRUE(registry_->Unload("x").ok());
  ASSERT_TRUE(registry_->Load("x", first, false).ok());
  EXPECT_NE(*registry_->IdOf("x"), id);
  EXPECT_EQ(*registry_->IdOf(""), "");
}

TEST_F(AdapterRegistryTest, FilesThatChangeAreLoadedAgainFirst) {
  const std::string folder = WriteAdapter("x");
  ASSERT_TRUE(registry_->Load("x", folder, false).ok());
  ASSERT_TRUE(registry_->IdOf("x").ok());
  WriteAdapter("x", 3);
  EXPECT_EQ(registry_->IdOf("x").status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(registry_->Load("x", folder, true).ok());
  EXPECT_TRUE(registry_->IdOf("x").ok());
  fs::remove_all(folder);
  EXPECT_THAT(std::string(registry_->IdOf("x").status().message()),
              HasSubstr("have changed since it was loaded"));
}

TEST_F(AdapterRegistryTest, RefusesByName) {
  const std::string folder = WriteAdapter("x");
  for (const std::string& name : {std::string(), std::string("a b"), std::string(129, 'a')}) {
    EXPECT_EQ(registry_->Load(name, folder, false).code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(registry_->Load("tiny", folder, true).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(registry_->Load("x", "/nowhere", false).code(), absl::StatusCode::kNotFound);
  const absl::Status other = registry_->Load("y", WriteAdapter("y", 2, 6), false);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("k_proj"));
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(std::string(registry_->IdOf("x").status().message()),
              HasSubstr("adapter is \"x\", which is not loaded; none is"));
  ASSERT_TRUE(registry_->Load("z", folder, false).ok());
  EXPECT_EQ(registry_->IdOf("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(registry_->Unload("x").message()), HasSubstr("accepted: z"));
}

TEST_F(AdapterRegistryTest, AFolderIsFollowed) {
  AdapterFolder folder(adapters_.path(), registry_.get());
  WriteAdapter("a");
  WriteAdapter("b");
  fs::create_directories(adapters_.PathOf("notes"));  // no adapter
  folder.Sync();
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  const std::string a = *registry_->IdOf("a"), b = *registry_->IdOf("b");
  folder.Sync();
  EXPECT_EQ(*registry_->IdOf("a"), a);  // unchanged, so not loaded again
  WriteAdapter("a", 3);
  fs::remove_all(adapters_.PathOf("b"));
  folder.Sync();
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_NE(*registry_->IdOf("a"), a);
  EXPECT_EQ(registry_->List().front().max_rank, 3);
  // What is refused leaves what was there, and is taken once it is mended.
  WriteAdapter("a", 4, 6);
  folder.Sync();
  EXPECT_EQ(registry_->List().front().max_rank, 3);
  WriteAdapter("a", 5);
  folder.Sync();
  EXPECT_EQ(registry_->List().front().max_rank, 5);
}

TEST_F(AdapterRegistryTest, AFolderLeavesAdaptersThatWereLoadedOtherwise) {
  AdapterFolder folder(adapters_.path(), registry_.get());
  const TempFolder elsewhere;
  fs::copy(WriteAdapter("a"), elsewhere.PathOf("a"));
  ASSERT_TRUE(registry_->Load("a", elsewhere.PathOf("a"), false).ok());
  folder.Sync();
  EXPECT_EQ(registry_->List().front().folder, elsewhere.PathOf("a"));
  fs::remove_all(adapters_.PathOf("a"));
  folder.Sync();
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST(AdapterListTest, ReadsNamesAndFolders) {
  EXPECT_THAT(*ParseAdapterList("a=/x,b=/y=z"), ElementsAre(Pair("a", "/x"), Pair("b", "/y=z")));
  EXPECT_THAT(*ParseAdapterList(""), IsEmpty());
  for (const char* const wrong : {"a", "=x", "a=", "a=x,a=y"}) {
    EXPECT_EQ(ParseAdapterList(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace sluice::testing
