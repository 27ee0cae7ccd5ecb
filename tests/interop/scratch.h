// A directory of a test's own, in the build tree, gone with the test.

#ifndef RETRY_GUARD_TESTS_INTEROP_SCRATCH_H_
#define RETRY_GUARD_TESTS_INTEROP_SCRATCH_H_

#include <string>

namespace retry_guard::interop {

class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it.
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // … with this text.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_SCRATCH_H_
