// `interceptor_chain`: facts about gRPC's interceptors that retry_guard stands
// on, seen with it in the chain. What it hijacks, relays or lets pass must look
// to interceptors before and after it as a plain call does.

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/interceptor.h"
#include "retry_guard/testing/echo.grpc.pb.h"
#include "tests/conformance/kinds.h"
#include "tests/end2end/call_styles.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;
using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using testing::EchoReply;
using testing::EchoRequest;
using testing::EchoService;
using Creators =
    std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>>;
using Hook = InterceptionHookPoints;

// As many as the peers' tests send in a stream.
constexpr int kMessages = 10;

class Service final : public EchoService::Service {
 public:
  grpc::Status Unary(grpc::ServerContext*, const EchoRequest* request,
                     EchoReply* reply) override {
    ++calls;
    reply->set_text(request->text());
    return grpc::Status::OK;
  }
  grpc::Status ClientStream(grpc::ServerContext*,
                            grpc::ServerReader<EchoRequest>* reader,
                            EchoReply* reply) override {
    ++calls;
    EchoRequest request;
    while (reader->Read(&request)) reply->set_text(request.text());
    return grpc::Status::OK;
  }
  grpc::Status ServerStream(grpc::ServerContext*, const EchoRequest* request,
                            grpc::ServerWriter<EchoReply>* writer) override {
    ++calls;
    EchoReply reply;
    reply.set_text(request->text());
    for (int i = 0; i < kMessages; ++i) writer->Write(reply);
    return grpc::Status::OK;
  }
  grpc::Status Bidi(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<EchoReply, EchoRequest>* stream) override {
    ++calls;
    EchoRequest request;
    EchoReply reply;
    while (stream->Read(&request)) {
      reply.set_text(request.text());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
};

// What the interceptors of one chain saw. Outlives them.
struct Seen {
  void Count(const std::string& what) {
    absl::MutexLock lock(&mu);
    ++counts[what];
  }
  int Of(const std::string& what) {
    absl::MutexLock lock(&mu);
    return counts[what];
  }

  absl::Mutex mu;
  std::map<std::string, int> counts ABSL_GUARDED_BY(mu);
  std::string method ABSL_GUARDED_BY(mu);
  bool unary ABSL_GUARDED_BY(mu) = false;
  bool has_suffix ABSL_GUARDED_BY(mu) = false;
  std::string message ABSL_GUARDED_BY(mu);  // at POST_RECV_MESSAGE
  int status ABSL_GUARDED_BY(mu) = -1;      // at POST_RECV_STATUS
};

constexpr std::pair<Hook, const char*> kHooks[] = {
    {Hook::PRE_SEND_INITIAL_METADATA, "PRE_SEND_INITIAL_METADATA"},
    {Hook::PRE_SEND_MESSAGE, "PRE_SEND_MESSAGE"},
    {Hook::PRE_SEND_CLOSE, "PRE_SEND_CLOSE"},
    {Hook::POST_RECV_INITIAL_METADATA, "POST_RECV_INITIAL_METADATA"},
    {Hook::POST_RECV_MESSAGE, "POST_RECV_MESSAGE"},
    {Hook::POST_RECV_STATUS, "POST_RECV_STATUS"},
};

class Observing final : public Interceptor {
 public:
  Observing(Seen* seen, ClientRpcInfo* info) : seen_(seen) {
    absl::MutexLock lock(&seen->mu);
    seen->method = info->method();
    seen->unary = info->type() == ClientRpcInfo::Type::UNARY;
    seen->has_suffix = info->suffix_for_stats() != nullptr;
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    for (const auto& [hook, name] : kHooks) {
      if (methods->QueryInterceptionHookPoint(hook)) seen_->Count(name);
    }
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_MESSAGE)) {
      const void* const message = methods->GetRecvMessage();
      seen_->Count(message != nullptr ? "POST_RECV_MESSAGE_non_null"
                                      : "null_messages");
    }
    methods->Proceed();
  }

 private:
  Seen* const seen_;
};

class Counting final : public Interceptor {
 public:
  explicit Counting(Seen* seen) : seen_(seen) {}

  // gRPC makes all interceptors of a call when it starts; those after a
  // hijacker never run.
  void Intercept(InterceptorBatchMethods* methods) override {
    if (!ran_) seen_->Count("runs");
    ran_ = true;
    methods->Proceed();
  }

 private:
  Seen* const seen_;
  bool ran_ = false;
};

// Answers a call in the server's stead: a unary one, or a stream of replies.
class Hijacking final : public Interceptor {
 public:
  explicit Hijacking(Seen* seen) : seen_(seen) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      methods->Hijack();
      return;
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_RECV_MESSAGE)) {
      if (messages_++ < kMessages) {
        static_cast<EchoReply*>(methods->GetRecvMessage())
            ->set_text("hijacked");
      } else {
        methods->FailHijackedRecvMessage();
      }
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_RECV_STATUS)) {
      *methods->GetRecvStatus() = grpc::Status::OK;
    }
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_MESSAGE)) {
      auto* const reply = static_cast<EchoReply*>(methods->GetRecvMessage());
      seen_->Count(reply != nullptr ? "own_messages" : "null_messages");
      absl::MutexLock lock(&seen_->mu);
      if (reply != nullptr) {
        seen_->message = reply->text();
        reply->set_text("rewritten");
      }
    }
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_STATUS)) {
      absl::MutexLock lock(&seen_->mu);
      seen_->status = methods->GetRecvStatus()->error_code();
    }
    methods->Proceed();
  }

 private:
  Seen* const seen_;
  int messages_ = 0;
};

enum class What { kObserve, kCount, kHijack };

class Factory final : public ClientInterceptorFactoryInterface {
 public:
  Factory(What what, Seen* seen) : what_(what), seen_(seen) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    switch (what_) {
      case What::kObserve:
        return new Observing(seen_, info);
      case What::kCount:
        return new Counting(seen_);
      case What::kHijack:
        return new Hijacking(seen_);
    }
    return nullptr;
  }

 private:
  const What what_;
  Seen* const seen_;
};

// A server, and channels of any chain to it.
class Chain {
 public:
  Chain() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~Chain() {
    server_->Shutdown();
    server_->Wait();
  }

  Chain& Add(What what, int count = 1) {
    for (int i = 0; i < count; ++i) {
      creators_.push_back(std::make_unique<Factory>(what, &seen_));
    }
    return *this;
  }

  Chain& AddOurs() {
    InterceptorOptions options;
    options.core_retries_off = true;
    creators_.push_back(*InterceptorFactory::Create(std::move(options)));
    return *this;
  }

  std::shared_ptr<grpc::Channel> Channel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::experimental::CreateCustomChannelWithInterceptors(
        absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials(),
        arguments, std::move(creators_));
  }

  Seen& seen() { return seen_; }
  int server_calls() const { return service_.calls; }

 private:
  Seen seen_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  Creators creators_;
};

end2end::CallResult CallUnary(const std::shared_ptr<grpc::Channel>& channel,
                              Style style) {
  grpc::ClientContext context;
  return end2end::Call(style, channel, &context);
}

grpc::Status CallClientStream(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = EchoService::NewStub(channel);
  grpc::ClientContext context;
  EchoReply reply;
  EchoRequest request;
  const auto writer = stub->ClientStream(&context, &reply);
  for (int i = 0; i < kMessages; ++i) writer->Write(request);
  writer->WritesDone();
  return writer->Finish();
}

grpc::Status CallServerStream(const std::shared_ptr<grpc::Channel>& channel,
                              int* messages) {
  const auto stub = EchoService::NewStub(channel);
  grpc::ClientContext context;
  EchoReply reply;
  const auto reader = stub->ServerStream(&context, EchoRequest());
  *messages = 0;
  while (reader->Read(&reply)) ++*messages;
  return reader->Finish();
}

grpc::Status CallServerStreamByQueue(
    const std::shared_ptr<grpc::Channel>& channel, int* messages) {
  const auto stub = EchoService::NewStub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  EchoReply reply;
  grpc::Status status;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto reader =
      stub->AsyncServerStream(&context, EchoRequest(), &queue, &queue);
  *messages = 0;
  if (next()) {
    for (reader->Read(&reply, &queue); next(); reader->Read(&reply, &queue)) {
      ++*messages;
    }
  }
  reader->Finish(&status, &queue);
  next();
  queue.Shutdown();
  return status;
}

grpc::Status CallBidi(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = EchoService::NewStub(channel);
  grpc::ClientContext context;
  EchoReply reply;
  EchoRequest request;
  const auto stream = stub->Bidi(&context);
  for (int i = 0; i < kMessages; ++i) {
    stream->Write(request);
    stream->Read(&reply);
  }
  stream->WritesDone();
  return stream->Finish();
}

std::string Title(const Fields& scenario) {
  return absl::AsciiStrToLower(scenario.Text("title").value_or(""));
}

Style StyleOf(const std::string& title) {
  if (absl::StrContains(title, "callback")) return Style::kCallback;
  if (absl::StrContains(title, "completion-queue") ||
      absl::StrContains(title, "completion queue")) {
    return Style::kQueue;
  }
  return Style::kSync;
}

// How often an observer before us, and others after us, hear of what.
void ReplayHooks(const Fields& scenario, Report& report) {
  const std::string title = Title(scenario);
  const Fields config = scenario.Object("config");
  const auto before = static_cast<int>(config.Int("before").value_or(0));
  const auto after = static_cast<int>(config.Int("after").value_or(0));
  if (config.Text("interceptor") != "observer") {
    report.NotApplicable("config.interceptor is no observer");
  }
  const Fields expect = scenario.Object("expect");
  std::map<std::string, int> expected;
  std::optional<int64_t> later;
  for (const std::string& key : expect.Keys()) {
    if (key == "later_interceptors_run") {
      later = expect.Int(key.c_str());
      continue;
    }
    bool known = key == "POST_RECV_MESSAGE_non_null" || key == "null_messages";
    for (const auto& [hook, name] : kHooks) known |= key == name;
    if (!known) continue;
    if (expect.IsString(key.c_str())) {
      if (*expect.Text(key.c_str()) != "N") {
        report.NotApplicable(expect.Path(key));
      }
      expected[key] = kMessages;
    } else {
      expected[key] = static_cast<int>(expect.Int(key.c_str()).value_or(0));
    }
  }
  if (!scenario.AllRead()) return;

  Chain chain;
  const auto channel = chain.Add(What::kCount, before)
                           .Add(What::kObserve)
                           .AddOurs()
                           .Add(What::kCount, after)
                           .Channel();
  grpc::Status status;
  int messages = 0;
  if (absl::StrContains(title, "client-streaming") ||
      absl::StrContains(title, "client streaming")) {
    status = CallClientStream(channel);
  } else if (absl::StrContains(title, "server-streaming") ||
             absl::StrContains(title, "server streaming")) {
    status = CallServerStream(channel, &messages);
  } else if (absl::StrContains(title, "bidi")) {
    status = CallBidi(channel);
  } else if (absl::StrContains(title, "unary")) {
    status = CallUnary(channel, StyleOf(title)).status;
  } else {
    report.NotApplicable("the title names no type of call");
    return;
  }
  report.Check(status.ok(), absl::StrCat("status ", status.error_message()));
  for (const auto& [name, count] : expected) {
    report.Equal(name, chain.seen().Of(name), count);
  }
  if (later.has_value()) {
    report.Equal("later interceptors", chain.seen().Of("runs") - before,
                 static_cast<int>(*later));
  }
}

void ReplayRpcInfo(const Fields& scenario, Report& report) {
  scenario.Object("expect").Note({"method", "type", "suffix_for_stats"});
  if (!scenario.AllRead()) return;
  for (const Style style : {Style::kSync, Style::kCallback}) {
    Chain chain;
    const auto channel =
        chain.AddOurs().Add(What::kObserve).Channel();  // sees the attempt
    CallUnary(channel, style);
    absl::MutexLock lock(&chain.seen().mu);
    report.Equal("method", chain.seen().method,
                 "/retry_guard.testing.EchoService/Unary");
    report.Equal("unary", chain.seen().unary, true);
    report.Equal("has a suffix", chain.seen().has_suffix, false);
  }
}

// A hijacker after us answers our attempt.
void ReplayOwnPost(const Fields& scenario, Report& report) {
  scenario.Object("expect").Note({"PRE_RECV_MESSAGE", "POST_RECV_MESSAGE",
                                  "PRE_RECV_STATUS", "POST_RECV_STATUS"});
  if (!scenario.AllRead()) return;
  for (const Style style : {Style::kSync, Style::kCallback}) {
    Chain chain;
    const auto channel = chain.AddOurs().Add(What::kHijack).Channel();
    const end2end::CallResult result = CallUnary(channel, style);
    report.Equal("ok", result.status.ok(), true);
    report.Equal("text", result.text, "rewritten");
    report.Equal("server calls", chain.server_calls(), 0);
    absl::MutexLock lock(&chain.seen().mu);
    report.Equal("own message", chain.seen().message, "hijacked");
    report.Equal("own status", chain.seen().status, 0);
  }
}

// We are a hijacker: an observer before us sees a normal call.
void ReplayLogThenHijack(const Fields& scenario, Report& report) {
  const Fields config = scenario.Object("config");
  config.Note({"interceptor", "before", "after"});
  const auto hooks = scenario.Object("expect").Text("observer_hooks");
  if (hooks != "as for a normal unary call") {
    report.NotApplicable("expect.observer_hooks");
  }
  if (!scenario.AllRead()) return;
  for (const Style style : {Style::kSync, Style::kCallback, Style::kQueue}) {
    Chain plain;
    CallUnary(plain.Add(What::kObserve).Channel(), style);
    Chain chain;
    CallUnary(chain.Add(What::kObserve).AddOurs().Channel(), style);
    for (const auto& [hook, name] : kHooks) {
      report.Equal(absl::StrCat(end2end::StyleName(style), ", ", name),
                   chain.seen().Of(name), plain.seen().Of(name));
    }
  }
}

void ReplayCountingRuns(const Fields& scenario, Report& report) {
  const std::string title = Title(scenario);
  const bool global = absl::StrContains(title, "global");
  const Fields config = scenario.Object("config");
  config.Note({"interceptor", "before", "after"});
  const Fields expect = scenario.Object("expect");
  const auto runs = expect.Int("counting_runs");
  const auto status = expect.Text("final_status");
  const auto network_calls = expect.Int("network_calls");
  if (!runs.has_value() || (status.has_value() && *status != "OK") ||
      network_calls.value_or(0) != 0) {
    report.NotApplicable("expect is not about a call that is hijacked whole");
  }
  if (!scenario.AllRead()) return;
  for (const Style style : {Style::kSync, Style::kCallback}) {
    Chain chain;
    chain.Add(What::kObserve)
        .Add(What::kCount, static_cast<int>(*runs))
        .AddOurs();
    Factory hijacker(What::kHijack, &chain.seen());
    if (global) {
      grpc::experimental::RegisterGlobalClientInterceptorFactory(&hijacker);
    } else {
      chain.Add(What::kHijack);
    }
    const end2end::CallResult result = CallUnary(chain.Channel(), style);
    if (global)
      grpc::experimental::TestOnlyResetGlobalClientInterceptorFactory();
    report.Equal("counting runs", chain.seen().Of("runs"),
                 static_cast<int>(*runs));
    report.Equal("ok", result.status.ok(), true);
    report.Equal("network calls", chain.server_calls(),
                 static_cast<int>(network_calls.value_or(0)));
  }
}

void ReplayFailReceive(const Fields& scenario, Report& report) {
  const Fields expect = scenario.Object("expect");
  const auto messages = expect.Int("messages");
  const auto null_messages = expect.Int("null_messages");
  const auto status = expect.Text("final_status");
  if (messages != kMessages || status != "OK") {
    report.NotApplicable("expect.messages is not ten");
  }
  if (!scenario.AllRead()) return;
  Chain chain;
  const auto channel = chain.AddOurs().Add(What::kHijack).Channel();
  int got = 0;
  const grpc::Status end = StyleOf(Title(scenario)) == Style::kQueue
                               ? CallServerStreamByQueue(channel, &got)
                               : CallServerStream(channel, &got);
  report.Equal("messages", got, static_cast<int>(*messages));
  report.Equal("ok", end.ok(), true);
  if (null_messages.has_value()) {
    report.Equal("null messages", chain.seen().Of("null_messages"),
                 static_cast<int>(*null_messages));
  }
}

}  // namespace

void ReplayInterceptors(const Table& /*table*/, const Fields& scenario,
                        Report& report) {
  const Fields expect = scenario.Object("expect");
  if (expect.Has("PRE_SEND_INITIAL_METADATA")) {
    ReplayHooks(scenario, report);
  } else if (expect.Has("suffix_for_stats")) {
    ReplayRpcInfo(scenario, report);
  } else if (expect.Has("PRE_RECV_STATUS")) {
    ReplayOwnPost(scenario, report);
  } else if (expect.Has("observer_hooks")) {
    ReplayLogThenHijack(scenario, report);
  } else if (expect.Has("counting_runs")) {
    ReplayCountingRuns(scenario, report);
  } else if (expect.Has("null_messages")) {
    ReplayFailReceive(scenario, report);
  } else {
    report.NotApplicable("no replay knows this fact");
  }
}

}  // namespace retry_guard::conformance
