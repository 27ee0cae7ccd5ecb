#include "retry_guard/call/send_buffer.h"

#include <utility>

namespace retry_guard::internal {
namespace {

int64_t SizeOf(const StreamWrite& write) {
  return write.has_message ? static_cast<int64_t>(write.message.Length()) : 0;
}

}  // namespace

int64_t SendBuffer::Add(StreamWrite write) {
  bytes_ += SizeOf(write);
  writes_.push_back(std::move(write));
  return first_ + static_cast<int64_t>(writes_.size()) - 1;
}

void SendBuffer::AddWritten(StreamWrite write) {
  Add(std::move(write));
  ++next_;
  MarkWritten();
}

const StreamWrite* SendBuffer::Next() {
  const int64_t offset = next_ - first_;
  if (offset >= static_cast<int64_t>(writes_.size())) return nullptr;
  ++next_;
  return &writes_[offset];
}

void SendBuffer::MarkWritten() {
  ++written_;
  if (committed_) DropWritten();
}

void SendBuffer::Commit() {
  committed_ = true;
  DropWritten();
}

void SendBuffer::DropWritten() {
  while (first_ < written_) {
    bytes_ -= SizeOf(writes_.front());
    writes_.pop_front();
    ++first_;
  }
}

}  // namespace retry_guard::internal
