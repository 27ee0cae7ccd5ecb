// A layer as the conductor sees it: a process.

#ifndef EXAMPLES_CHAIN_LAYER_PROCESS_H_
#define EXAMPLES_CHAIN_LAYER_PROCESS_H_

#include <sys/types.h>

#include <string>

#include "scenario.h"

namespace chain {

// Not thread-safe. To be made on the main thread: the kernel ends a layer with
// the thread that started it.
class LayerProcess {
 public:
  // Returns when it listens; throws if it does not come up. `next` is the
  // address of the layer below, empty for the bottom.
  LayerProcess(Mode mode, int index, const std::string& next);
  ~LayerProcess();

  LayerProcess(const LayerProcess&) = delete;
  LayerProcess& operator=(const LayerProcess&) = delete;

  const std::string& address() const { return address_; }

 private:
  void Kill();

  pid_t pid_ = -1;
  std::string address_;
};

}  // namespace chain

#endif  // EXAMPLES_CHAIN_LAYER_PROCESS_H_
