// What a stream has sent so far, as long as it may have to be sent again.

#ifndef RETRY_GUARD_CALL_SEND_BUFFER_H_
#define RETRY_GUARD_CALL_SEND_BUFFER_H_

#include <cstdint>
#include <deque>

#include "retry_guard/call/stream_write.h"

namespace retry_guard::internal {

// A queue of writes, numbered from 0. Each attempt sends them from the first
// one on; what has been written is kept for the next attempt until the call
// commits. Thread-compatible.
class SendBuffer {
 public:
  // Its number.
  int64_t Add(StreamWrite write);

  // The next one for this attempt to send; null if there is none. Stays until
  // it was written, or a new attempt begins.
  const StreamWrite* Next();

  // The one that Next gave last has been written.
  void MarkWritten();

  // One that this attempt has written by itself.
  void AddWritten(StreamWrite write);

  // How many this attempt, or a committed one before it, has written.
  int64_t written() const { return written_; }

  // A new attempt: everything has to be sent again.
  void Restart() { next_ = written_ = first_; }

  // There will be no other attempt: what was written is dropped, now and from
  // now on.
  void Commit();

  // Of the messages that are kept.
  int64_t bytes() const { return bytes_; }

 private:
  void DropWritten();

  std::deque<StreamWrite> writes_;
  int64_t first_ = 0;    // the number of writes_.front()
  int64_t next_ = 0;     // to be sent by this attempt
  int64_t written_ = 0;  // by this attempt
  int64_t bytes_ = 0;
  bool committed_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_SEND_BUFFER_H_
