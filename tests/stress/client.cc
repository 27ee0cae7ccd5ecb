#include "tests/stress/client.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "retry_guard/server.h"
#include "tests/end2end/call_styles.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::stress {
namespace {

using end2end::Stream;

std::unique_ptr<grpc::ClientContext> MakeContext(const Plan& plan,
                                                 grpc::ServerContext* inbound) {
  std::unique_ptr<grpc::ClientContext> context;
  if (plan.parent == Parent::kFromServerContext) {
    context = grpc::ClientContext::FromServerContext(*inbound);
  } else {
    context = std::make_unique<grpc::ClientContext>();
  }
  context->AddMetadata(kCallKey, absl::StrCat(plan.id));
  if (plan.parent == Parent::kContinueFrom) {
    ContinueFrom(*inbound, context.get());
  } else if (plan.parent == Parent::kNone && plan.deadline.has_value()) {
    context->set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMicroseconds(*plan.deadline));
  }
  return context;
}

Result MakeUnaryCall(Record& record, std::shared_ptr<grpc::Channel> channel,
                     grpc::ClientContext* context) {
  const Plan& plan = record.plan();
  end2end::StartedCall call(plan.style, channel, context, plan.Request(0),
                            MethodOf(plan.shape));
  channel = nullptr;
  Result result;
  // The watchdog is faster.
  result.status = call.Await(absl::Hours(1));
  result.has_status = true;
  result.untouched = end2end::UntouchedReply(plan.style);
  // A failed attempt may have touched it; then it has been cleared.
  if (call.text() != result.untouched && !call.text().empty()) {
    record.Delivered();
    result.replies.push_back(call.text());
  }
  return result;
}

std::unique_ptr<Stream> StartStream(
    const Plan& plan, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context) {
  end2end::StreamOptions options;
  options.corked = plan.corked;
  options.request = plan.Request(0);
  return end2end::StartStream({plan.shape, plan.style}, channel, context,
                              options);
}

void WriteAll(const Plan& plan, Stream& stream) {
  if (!plan.streams_up()) return;
  for (int i = 0; i < plan.requests; ++i) {
    if (!stream.Write(plan.Request(i))) return;
  }
  stream.WritesDone();
}

// False: it is to be dropped.
bool ReadAll(Record& record, Stream& stream, Result* result) {
  const int drop_after = record.plan().drop_after;
  std::string text;
  while (static_cast<int>(result->replies.size()) != drop_after) {
    if (!stream.Read(&text)) return true;
    record.Delivered();
    result->replies.push_back(text);
  }
  return false;
}

Result MakeStreamingCall(Record& record, std::shared_ptr<grpc::Channel> channel,
                         grpc::ClientContext* context) {
  const Plan& plan = record.plan();
  const std::unique_ptr<Stream> stream = StartStream(plan, channel, context);
  channel = nullptr;
  Result result;
  std::thread writer;
  if (plan.two_threads) {
    writer = std::thread([&] { WriteAll(plan, *stream); });
  } else {
    WriteAll(plan, *stream);
  }
  if (plan.streams_down()) {
    result.dropped = !ReadAll(record, *stream, &result);
  }
  if (writer.joinable()) writer.join();
  if (result.dropped) return result;
  result.status = stream->Finish();
  result.has_status = true;
  const std::string reply = plan.streams_down() ? "" : stream->reply();
  if (!reply.empty() && reply != end2end::UntouchedReply(plan.style)) {
    result.replies.push_back(reply);
  }
  return result;
}

}  // namespace

Result MakeCall(Record& record, std::shared_ptr<grpc::Channel> channel,
                grpc::ServerContext* inbound) {
  const Plan& plan = record.plan();
  const std::unique_ptr<grpc::ClientContext> context =
      MakeContext(plan, inbound);
  // One with a parent is cancelled through that.
  if (inbound == nullptr) record.Attach(context.get());
  if (plan.cancel.when == CancelAt::When::kBeforeStart) record.Cancel();
  Result result =
      plan.shape == Shape::kUnary
          ? MakeUnaryCall(record, std::move(channel), context.get())
          : MakeStreamingCall(record, std::move(channel), context.get());
  if (inbound == nullptr) record.Detach();
  return result;
}

}  // namespace retry_guard::stress
