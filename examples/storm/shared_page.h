// The memory that parent and backend share: levers one way, counts the other.
// It belongs to the parent, so the counts outlive a killed backend.

#ifndef EXAMPLES_STORM_SHARED_PAGE_H_
#define EXAMPLES_STORM_SHARED_PAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"

namespace storm {

inline constexpr absl::Duration kBucket = absl::Milliseconds(100);

// Thread-safe, and safe between processes.
class SharedPage {
 public:
  // Pulled by the parent, read by the backend for every request.
  std::atomic<int64_t> service_time_us{0};
  std::atomic<int> one_in_fails{0};  // of so many answers, at random; 0: none
  std::atomic<bool> refuse_all{false};

  // Set by the backend when it listens, cleared by the parent.
  std::atomic<bool> serving{false};

  // Where bucket 0 starts, on the steady clock. Before it nothing is counted.
  void StartCounting(absl::Duration start);
  void CountAttempt(absl::Duration now);

  // One number per kBucket, `length` in all.
  std::vector<int64_t> AttemptsPerBucket(absl::Duration length) const;

 private:
  static constexpr size_t kBuckets = 1024;  // 102 s

  std::atomic<int64_t> start_ns_{INT64_MAX};
  std::array<std::atomic<int64_t>, kBuckets> attempts_{};
};

static_assert(std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a lock would not work between processes");

// Owns one mapping of the page.
class SharedMapping {
 public:
  // A new page; its file descriptor is inherited by children.
  static SharedMapping Create();
  // The page behind an inherited descriptor.
  static SharedMapping Open(int fd);

  SharedPage& page() const { return *page_; }
  int fd() const { return fd_; }

 private:
  struct Unmap {
    void operator()(SharedPage* page) const;
  };

  SharedMapping(int fd, SharedPage* page) : fd_(fd), page_(page) {}

  int fd_;
  std::unique_ptr<SharedPage, Unmap> page_;
};

}  // namespace storm

#endif  // EXAMPLES_STORM_SHARED_PAGE_H_
