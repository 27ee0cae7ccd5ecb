#include "tests/interop/scratch.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace retry_guard::interop {

Scratch::Scratch() : path_(RETRY_GUARD_SCRATCH_DIR "/XXXXXX") {
  std::filesystem::create_directories(RETRY_GUARD_SCRATCH_DIR);
  if (mkdtemp(path_.data()) == nullptr) {
    std::perror(path_.c_str());
    std::abort();
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Scratch::Write(const std::string& name,
                           const std::string& text) const {
  std::string file = File(name);
  std::ofstream(file) << text;
  return file;
}

}  // namespace retry_guard::interop
