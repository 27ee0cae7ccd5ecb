#include "tests/interop/backend.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tests/interop/await.h"

namespace retry_guard::interop {
namespace {

constexpr char kJournal[] = "journal";

}  // namespace

void Backend::Start() {
  process_.emplace(std::vector<std::string>{RETRY_GUARD_BACKEND,
                                            absl::StrCat(port_.port()),
                                            scratch_.File(kJournal)});
  if (!process_->AwaitLine("listening").has_value()) {
    std::fputs("the backend does not start\n", stderr);
    std::abort();
  }
}

void Backend::Stop() {
  process_->Signal(SIGTERM);
  process_->AwaitEnd();
  process_.reset();
}

void Backend::Kill() { process_.reset(); }

Executions Backend::executions() const {
  Executions executions;
  std::ifstream journal(scratch_.File(kJournal));
  for (std::string id; std::getline(journal, id);) ++executions[id];
  return executions;
}

bool Backend::AwaitExecution(const std::string& id) const {
  return Await([&] { return executions().count(id) > 0; });
}

bool Backend::AwaitAnyExecution() const {
  return Await(
      [this, before = JournalSize()] { return JournalSize() > before; });
}

size_t Backend::JournalSize() const {
  std::error_code missing;
  const auto size =
      std::filesystem::file_size(scratch_.File(kJournal), missing);
  return missing ? 0 : size;
}

Executions Sum(const Executions& a, const Executions& b) {
  Executions sum = a;
  for (const auto& [id, count] : b) sum[id] += count;
  return sum;
}

}  // namespace retry_guard::interop
