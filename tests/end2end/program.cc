#include "tests/end2end/program.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace retry_guard::end2end {
namespace {

// Large texts by their length.
std::string Show(const std::string& text) {
  if (text.size() > 100) return absl::StrCat(text.size(), " bytes");
  return absl::CEscape(text);
}

std::string Show(bool ok) { return ok ? "true" : "false"; }

// A newer core says "Stream removed (...)", or does not, as chance will have
// it.
std::string Unwrapped(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "Stream removed (")) {
    return std::string(message);
  }
  return absl::StrReplaceAll(message, {{")", ""}});
}

std::string Show(const grpc::Status& status) {
  return absl::StrCat(status.error_code(), " \"",
                      Show(Unwrapped(status.error_message())), "\" (",
                      Show(status.error_details()), ")");
}

template <typename Metadata>
std::string ShowMetadata(const Metadata& metadata) {
  return absl::StrJoin(metadata, ", ", [](std::string* out, const auto& entry) {
    const std::string key(entry.first.data(), entry.first.size());
    const std::string value(entry.second.data(), entry.second.size());
    absl::StrAppend(out, key, "=", Show(value));
  });
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Sight& sight) {
  return os << sight.what << ": " << sight.value;
}

class Program::Runner {
 public:
  Runner(const Program& program, const Kind& kind,
         const std::shared_ptr<grpc::Channel>& channel,
         const PlayServer& server, int attempts)
      : program_(program),
        kind_(kind),
        channel_(channel),
        server_(server),
        attempts_(attempts) {}

  std::vector<Sight> Run() {
    program_.setup_(&context_);
    if (kind_.shape == Shape::kUnary) {
      StartedCall call(kind_.style, channel_, &context_,
                       program_.FirstMessage());
      for (const Step& step : program_.steps_) DoAnyway(step);
      const grpc::Status status = call.Await();
      LookAtEnd(status, call.text());
    } else {
      StreamOptions options;
      options.corked = program_.corked_ && ClientStreams(kind_.shape);
      options.request = program_.FirstMessage();
      const auto stream = StartStream(kind_, channel_, &context_, options);
      for (const Step& step : program_.steps_) {
        if (!DoAnyway(step)) Do(step, *stream);
      }
      const grpc::Status status = stream->Finish();
      LookAtEnd(status, stream->reply());
    }
    return std::move(sights_);
  }

 private:
  void See(const std::string& what, std::string value) {
    sights_.push_back({what, std::move(value)});
  }

  // What is the same for every shape.
  bool DoAnyway(const Step& step) {
    if (step.kind == Step::Kind::kAwaitServer) {
      if (!server_.AwaitMessage(attempts_ - 1)) See("server", "does not read");
    } else if (step.kind == Step::Kind::kCancel) {
      context_.TryCancel();
    } else {
      return false;
    }
    return true;
  }

  void Do(const Step& step, Stream& stream) {
    const bool writes = ClientStreams(kind_.shape);
    const bool reads = ServerStreams(kind_.shape);
    switch (step.kind) {
      case Step::Kind::kWrite:
        if (writes) See("Write", Show(stream.Write(step.text)));
        return;
      case Step::Kind::kWriteLast:
        if (writes) See("WriteLast", Show(stream.WriteLast(step.text)));
        return;
      case Step::Kind::kWritesDone:
        if (writes) See("WritesDone", Show(stream.WritesDone()));
        return;
      case Step::Kind::kAwaitHeaders:
        See("AwaitHeaders", Show(stream.AwaitHeaders()));
        See("headers", ShowMetadata(context_.GetServerInitialMetadata()));
        return;
      case Step::Kind::kRead:
        if (reads) Read(stream);
        return;
      case Step::Kind::kReadToEnd:
        while (reads && Read(stream)) {
        }
        return;
      case Step::Kind::kAwaitServer:
      case Step::Kind::kCancel:
        return;
    }
  }

  bool Read(Stream& stream) {
    std::string text;
    const bool ok = stream.Read(&text);
    See("Read", absl::StrCat(ok ? "" : "end, ", "\"", Show(text), "\""));
    return ok;
  }

  void LookAtEnd(const grpc::Status& status, const std::string& reply) {
    See("Finish", Show(status));
    if (!ServerStreams(kind_.shape)) See("reply", Show(reply));
    See("initial metadata", ShowMetadata(context_.GetServerInitialMetadata()));
    See("trailing metadata",
        ShowMetadata(context_.GetServerTrailingMetadata()));
    // A newer gRPC shows a target with its scheme.
    See("peer", std::string(absl::StripPrefix(context_.peer(), "dns:///")));
    See("debug_error_string",
        context_.debug_error_string().empty() ? "empty" : "some");
    const auto auth = context_.auth_context();
    See("auth_context", auth == nullptr ? "none" : "some");
    // The application may cancel what is over.
    context_.TryCancel();
  }

  const Program& program_;
  const Kind kind_;
  const std::shared_ptr<grpc::Channel> channel_;
  const PlayServer& server_;
  const int attempts_;
  grpc::ClientContext context_;
  std::vector<Sight> sights_;
};

std::vector<Sight> Program::Run(const Kind& kind,
                                const std::shared_ptr<grpc::Channel>& channel,
                                const PlayServer& server, int attempts) const {
  return Runner(*this, kind, channel, server, attempts).Run();
}

bool Program::awaits_server() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind == Step::Kind::kAwaitServer;
  });
}

std::string Program::FirstMessage() const {
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::kWrite ||
        step.kind == Step::Kind::kWriteLast) {
      return step.text;
    }
  }
  return "";
}

std::vector<Sight> LookAtServer(const PlayServer& server) {
  server.AwaitEnded();
  const std::vector<PlayedCall> seen = server.seen();
  if (seen.empty()) return {{"server", "saw nothing"}};
  const PlayedCall& last = seen.back();
  auto metadata = last.metadata;
  for (const char* const key :
       {"retry-owner", "retry-attempt", "retry-remaining-ms",
        "grpc-previous-rpc-attempts"}) {
    metadata.erase(key);
  }
  const auto show = [](std::string* out, const std::string& text) {
    absl::StrAppend(out, "\"", Show(text), "\"");
  };
  return {
      {"server's method", last.method},
      {"server's messages", absl::StrJoin(last.messages, ", ", show)},
      {"server's half-close", Show(last.half_closed)},
      {"server's metadata", ShowMetadata(metadata)},
      {"server's authority", last.authority},
      {"server's compression", absl::StrCat(last.compression)},
      {"server's deadline",
       last.time_left() == absl::InfiniteDuration() ? "none" : "one"},
  };
}

}  // namespace retry_guard::end2end
