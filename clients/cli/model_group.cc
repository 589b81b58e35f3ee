#include "clients/cli/model_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/process/log.h"

namespace sluice {
namespace {

using State = ProcessGroup::State;

constexpr absl::Duration kLook = absl::Milliseconds(200);

std::string InMebibytes(uint64_t bytes) {
  return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB");
}

}  // namespace

ModelGroup::ModelGroup(std::vector<GroupedModel> models, uint64_t memory_bytes,
                       std::function<void()> on_change, absl::Duration room_patience)
    : memory_bytes_(memory_bytes), room_patience_(room_patience), on_change_(std::move(on_change)) {
  {
    absl::MutexLock lock(&mutex_);
    for (GroupedModel& given : models) {
      auto model = std::make_unique<Model>();
      model->given = std::move(given);
      model->last_use = SteadyTime::Now();
      model->processes =
          std::make_unique<ProcessGroup>(model->given.processes, [this] { OnChange(); });
      if (!model->given.asleep) model->processes->Start();
      models_.push_back(std::move(model));
    }
    is_ready_ = true;
  }
  sleeper_ = std::thread([this] {
    while (!stop_.WaitFor(kLook)) Look();
  });
}

ModelGroup::~ModelGroup() {
  stop_.Set();
  sleeper_.join();
  std::vector<std::unique_ptr<Model>> models;
  {
    absl::MutexLock lock(&mutex_);
    models.swap(models_);
  }
  // At the same time, and then waited for: their threads call OnChange() until they end.
  for (const std::unique_ptr<Model>& model : models) model->processes->Stop();
}

std::vector<ModelGroup::Entry> ModelGroup::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Entry> entries;
  for (const std::unique_ptr<Model>& model : models_) {
    entries.push_back({.name = model->given.name,
                       .endpoint = model->given.endpoint,
                       .sleeps = model->given.sleeps(),
                       .state = model->processes->state(),
                       .last_end = model->processes->last_end()});
  }
  return entries;
}

void ModelGroup::Enter(const std::string& name, std::shared_ptr<ModelUser> user) {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = std::find_if(models_.begin(), models_.end(),
                                    [&](const auto& model) { return model->given.name == name; });
    if (found == models_.end()) {
      answers.push_back([user, name] {
        user->Refuse(absl::NotFoundError(absl::StrCat("no model is named ", name)));
      });
    } else {
      (*found)->waiting.push_back(std::move(user));
      Advance(answers);
    }
  }
  for (const auto& answer : answers) answer();
}

void ModelGroup::Leave(const ModelUser* user) {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    const auto is_user = [user](const std::shared_ptr<ModelUser>& each) {
      return each.get() == user;
    };
    for (const std::unique_ptr<Model>& model : models_) {
      model->waiting.remove_if(is_user);
      if (model->waiting.empty()) model->lacks_room_since.reset();
      if (model->using_it.remove_if(is_user) > 0) model->last_use = SteadyTime::Now();
    }
    Advance(answers);
  }
  for (const auto& answer : answers) answer();
}

void ModelGroup::OnChange() {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    if (!is_ready_) return;
    Advance(answers);
  }
  for (const auto& answer : answers) answer();
  on_change_();
}

void ModelGroup::Advance(Answers& answers) {
  for (const std::unique_ptr<Model>& model : models_) {
    if (!model->waiting.empty()) AdvanceModel(*model, answers);
  }
}

void ModelGroup::AdvanceModel(Model& model, Answers& answers) {
  switch (model.processes->state()) {
    case State::kRunning:
      model.is_tried = false;
      for (const std::shared_ptr<ModelUser>& user : model.waiting) {
        answers.push_back([user] { user->Serve(); });
      }
      model.using_it.splice(model.using_it.end(), model.waiting);
      return;
    case State::kStarting:
    case State::kEnding:
      return;
    case State::kEnded:
      break;
  }
  const absl::Status last_end = model.processes->last_end();
  if (std::exchange(model.is_tried, false) && !last_end.ok()) {
    return RefuseAll(model,
                     absl::UnavailableError(absl::StrCat(
                         model.given.name, " could not be started: ", last_end.message())),
                     answers);
  }
  absl::Status lack;
  if (MakeRoom(model, lack)) {
    model.lacks_room_since.reset();
    model.is_tried = true;
    model.processes->Start();
  } else if (!lack.ok()) {
    const SteadyTime now = SteadyTime::Now();
    if (now - model.lacks_room_since.value_or(now) >= room_patience_) {
      model.lacks_room_since.reset();
      RefuseAll(model, lack, answers);
    } else if (!model.lacks_room_since.has_value()) {
      model.lacks_room_since = now;
    }
  }
}

void ModelGroup::RefuseAll(Model& model, const absl::Status& why, Answers& answers) {
  for (std::shared_ptr<ModelUser>& user : model.waiting) {
    answers.push_back([user = std::move(user), why] { user->Refuse(why); });
  }
  model.waiting.clear();
}

bool ModelGroup::MakeRoom(const Model& model, absl::Status& lack) {
  uint64_t taken = 0;
  uint64_t ending = 0;
  std::vector<Model*> idle;
  for (const std::unique_ptr<Model>& other : models_) {
    const State state = other->processes->state();
    if (state == State::kEnded) continue;
    taken += other->given.memory_bytes;
    if (state == State::kEnding) ending += other->given.memory_bytes;
    if (state == State::kRunning && other->given.sleeps() && other->is_idle()) {
      idle.push_back(other.get());
    }
  }
  const uint64_t needed = model.given.memory_bytes;
  if (taken + needed <= memory_bytes_) return true;
  std::sort(idle.begin(), idle.end(),
            [](const Model* a, const Model* b) { return a->last_use < b->last_use; });
  uint64_t left = taken - ending;
  for (Model* const other : idle) {
    if (left + needed <= memory_bytes_) break;
    left -= other->given.memory_bytes;
  }
  if (left + needed > memory_bytes_) {
    lack = absl::ResourceExhaustedError(
        absl::StrCat(model.given.name, " takes ", InMebibytes(needed), ", and models in use take ",
                     InMebibytes(left), " of ", InMebibytes(memory_bytes_)));
    return false;
  }
  left = taken - ending;
  for (Model* const other : idle) {
    if (left + needed <= memory_bytes_) break;
    left -= other->given.memory_bytes;
    Log(LogLevel::kInfo, "up", "model-sleeps",
        {{"model", other->given.name}, {"for", model.given.name}});
    other->processes->Stop();
  }
  return false;
}

void ModelGroup::Look() {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    Advance(answers);
    SendToSleep();
  }
  for (const auto& answer : answers) answer();
}

void ModelGroup::SendToSleep() {
  const SteadyTime now = SteadyTime::Now();
  for (const std::unique_ptr<Model>& model : models_) {
    const State state = model->processes->state();
    if (state == State::kStarting) model->last_use = now;
    const bool is_due = state == State::kRunning && model->given.sleeps() && model->is_idle() &&
                        now - model->last_use >= model->given.sleep_after;
    if (!is_due) continue;
    Log(LogLevel::kInfo, "up", "model-sleeps",
        {{"model", model->given.name},
         {"unused_for",
          absl::FormatDuration(absl::Trunc(now - model->last_use, absl::Seconds(1)))}});
    model->processes->Stop();
  }
}

}  // namespace sluice
