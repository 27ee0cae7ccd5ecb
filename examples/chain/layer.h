// One service of the chain: a process that serves the layer above and, unless
// it is the bottom, calls the one below to do so.

#ifndef EXAMPLES_CHAIN_LAYER_H_
#define EXAMPLES_CHAIN_LAYER_H_

#include <sys/types.h>

#include <string>

#include "scenario.h"

namespace chain {

// How the deadline, the cancellation and the retry marker of an inbound call
// get into the outbound one. They come to the same; a service chooses one.
enum class CarryOver {
  kGrpcAlone,          // ClientContext::FromServerContext: no marker
  kContinueFrom,       // retry_guard::ContinueFrom, in the handler
  kServerInterceptor,  // FromServerContext, and the server interceptor
};

// To show both of retry_guard's they alternate.
CarryOver CarryOverOf(Mode mode, int layer);

struct LayerOptions {
  Mode mode = Mode::kNaive;
  int index = 0;     // into kLayers
  std::string next;  // where the layer below is; empty: this is the bottom
  pid_t parent = 0;  // ends with it
};

// Serves, and writes its port to stdout when it does. Never returns normally; 1
// if it cannot listen.
int RunLayer(const LayerOptions& options);

}  // namespace chain

#endif  // EXAMPLES_CHAIN_LAYER_H_
