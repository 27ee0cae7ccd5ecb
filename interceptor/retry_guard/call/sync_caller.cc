#include "retry_guard/call/sync_caller.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace retry_guard::internal {
namespace {

struct StackBounds {
  uintptr_t low = 0;
  uintptr_t high = 0;
};

StackBounds ThisThreadsStack() {
  StackBounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bounds;
  void* address = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
    bounds.low = reinterpret_cast<uintptr_t>(address);
    bounds.high = bounds.low + size;
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

}  // namespace

bool CalledFromBlockingApi(
    const grpc::experimental::InterceptorBatchMethods* methods) {
  // For the main thread glibc reads a file to find out: once per thread.
  thread_local const StackBounds stack = ThisThreadsStack();
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const auto object = reinterpret_cast<uintptr_t>(methods);
  const bool on_own_stack = frame >= stack.low && frame < stack.high;
  return on_own_stack && object > frame && object < stack.high;
}

}  // namespace retry_guard::internal
