#include "shared_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace storm {
namespace {

void* Map(int fd) {
  void* memory = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "mmap");
  }
  return memory;
}

}  // namespace

void SharedPage::StartCounting(absl::Duration start) {
  start_ns_ = absl::ToInt64Nanoseconds(start);
}

void SharedPage::CountAttempt(absl::Duration now) {
  const absl::Duration time = now - absl::Nanoseconds(start_ns_.load());
  if (time < absl::ZeroDuration()) return;
  const auto bucket = static_cast<size_t>(time / kBucket);
  if (bucket < kBuckets) ++attempts_[bucket];
}

std::vector<int64_t> SharedPage::AttemptsPerBucket(
    absl::Duration length) const {
  const auto count = static_cast<size_t>(absl::Ceil(length, kBucket) / kBucket);
  std::vector<int64_t> result;
  for (size_t i = 0; i < count && i < kBuckets; ++i) {
    result.push_back(attempts_[i]);
  }
  return result;
}

SharedMapping SharedMapping::Create() {
  // Without MFD_CLOEXEC: the backend finds the page by this descriptor.
  const int fd = memfd_create("storm", 0);
  if (fd < 0 || ftruncate(fd, sizeof(SharedPage)) != 0) {
    throw std::system_error(errno, std::generic_category(), "memfd");
  }
  return {fd, new (Map(fd)) SharedPage};
}

SharedMapping SharedMapping::Open(int fd) {
  return {fd, static_cast<SharedPage*>(Map(fd))};
}

void SharedMapping::Unmap::operator()(SharedPage* page) const {
  munmap(page, sizeof(SharedPage));
}

}  // namespace storm
