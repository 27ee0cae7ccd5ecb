// The inbound side: a server that makes calls of its own on behalf of the calls
// that it serves, and what it can tell its clients about retrying.
//
//   grpc::Status Orders::Get(grpc::ServerContext* inbound, …) {
//     grpc::ClientContext outbound;
//     retry_guard::ContinueFrom(*inbound, &outbound);
//     return inventory_->Check(&outbound, …);
//   }
//
// or, without a line in any handler that uses ClientContext::FromServerContext,
// once where the server is built:
//
//   creators.push_back(retry_guard::CreateServerInterceptorFactory());
//   builder.experimental().SetInterceptorCreators(std::move(creators));

#ifndef RETRY_GUARD_SERVER_H_
#define RETRY_GUARD_SERVER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/marker.h"

namespace retry_guard {

// Whether to believe the retry marker of an inbound call. At the edge of the
// system, where anybody can send one, it is dropped: there this layer is the
// outermost.
enum class Inbound { kTrusted, kUntrusted };

// Makes `outbound` a call on behalf of `inbound`; to be called before the
// outbound call starts, while the inbound one is being served:
// - its deadline becomes the earliest of its own, the inbound context's, and
//   what the marker says remains (counted from now, unless the server
//   interceptor knows when the call came in);
// - it is cancelled when the inbound call is;
// - the marker's owner and attempt travel on unchanged, so that no layer below
//   the owner retries. Nothing else is copied: an idempotency key, say, belongs
//   to one call.
// For contexts of all kinds of servers: sync, callback and async. A deadline of
// the outbound call's own has to be set before; one that is set afterwards
// replaces all this. Where a server interceptor is installed, both have to
// trust the marker: one that this call does not is dropped for all calls made
// on behalf of `inbound` from now on. From any thread, but not two at a time
// for one outbound context.
RETRY_GUARD_EXPORT void ContinueFrom(const grpc::ServerContextBase& inbound,
                                     grpc::ClientContext* outbound,
                                     Inbound trust = Inbound::kTrusted);

// For an application that retries by itself (a queue that redelivers, a user
// who presses again): marks the call as owned by `owner`, so that no layer
// below retries it on top of that. Before the call starts, and after its
// deadline was set, which the marker tells; replaces a marker that is there.
// `owner` is cut to 128 bytes, and what is not printable ASCII in it becomes
// '?'; an empty one marks nothing.
RETRY_GUARD_EXPORT void MarkOwned(grpc::ClientContext* outbound,
                                  std::string_view owner);

// What a layer above says of the call, whether it is to be trusted or not;
// nothing if it says nothing. While the inbound call is being served.
RETRY_GUARD_EXPORT std::optional<RetryMarker> ReadInboundMarker(
    const grpc::ServerContextBase& inbound);

// For a handler that is overloaded, or not ready: UNAVAILABLE, to be returned
// as it is. Tells every client that understands either of gRFC A6 pushback and
// google.rpc.RetryInfo to come again after `delay`; a negative one is zero. In
// the pushback it is rounded up to a millisecond and clamped to
// 0 .. 2^31-1 ms, about 24.8 days; RetryInfo has the whole of it.
//
// This and the next two write trailing metadata of `inbound`, so they have to
// come before the call is finished, on one thread. Call one of them, once: of
// two pushbacks gRPC C++ hands on the last only, and other clients stop.
RETRY_GUARD_EXPORT grpc::Status RetryLater(grpc::ServerContextBase* inbound,
                                           absl::Duration delay,
                                           std::string message);

// The same for any other status, which keeps its code, its message and the rest
// of its details: ABORTED, say, while a twin of the same request is still being
// carried out. OK stays as it is.
RETRY_GUARD_EXPORT grpc::Status RetryLater(grpc::ServerContextBase* inbound,
                                           absl::Duration delay,
                                           grpc::Status status);

// `status`, with a pushback that tells every client not to retry it. OK stays
// as it is.
RETRY_GUARD_EXPORT grpc::Status DoNotRetry(grpc::ServerContextBase* inbound,
                                           grpc::Status status);

// With it installed, calls that handlers make through
// ClientContext::FromServerContext (on channels with retry_guard) behave as
// after ContinueFrom, and in addition
// - a call that came in without any time left makes no outgoing attempts;
// - when a layer that is `"layer": "HERE"` has given up and the handler returns
//   that same code, the answer carries `grpc-retry-pushback-ms: -1`;
// - when the handler returns a refusal of the circuit breaker, the answer
//   carries the time until the next probe as pushback;
// each unless the handler has set a pushback of its own. One per server; never
// null.
RETRY_GUARD_EXPORT
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
CreateServerInterceptorFactory(Inbound trust = Inbound::kTrusted);

}  // namespace retry_guard

#endif  // RETRY_GUARD_SERVER_H_
