#include "backend.h"

#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/examples/storm.grpc.pb.h"
#include "retry_guard/limiter.h"
#include "scenario.h"
#include "steady_time.h"

namespace storm {
namespace {

namespace pb = ::retry_guard::examples;

class Reactor final : public grpc::ServerUnaryReactor {
 public:
  // A request takes its place in the queue, or at a worker, until it was
  // answered.
  void Hold(retry_guard::ConcurrencyLimiter::Permit place) {
    place_ = std::move(place);
  }
  void OnDone() override { delete this; }

 private:
  retry_guard::ConcurrencyLimiter::Permit place_;
};

class BackendService final : public pb::Backend::CallbackService {
 public:
  BackendService(SharedPage& page, uint64_t seed)
      : page_(page), pool_(page, seed) {}

  grpc::ServerUnaryReactor* Work(grpc::CallbackServerContext* context,
                                 const pb::WorkRequest*,
                                 pb::WorkReply*) override {
    page_.CountAttempt(SteadyNow());
    auto* reactor = new Reactor;
    if (page_.refuse_all) {
      reactor->Finish({grpc::StatusCode::UNAVAILABLE, "out of order"});
      return reactor;
    }
    auto admission = limiter_.TryAcquire(context);
    if (!admission.ok()) {
      reactor->Finish(admission.status);
      return reactor;
    }
    reactor->Hold(std::move(admission.permit));
    pool_.Submit(
        [reactor](const grpc::Status& status) { reactor->Finish(status); });
    return reactor;
  }

 private:
  static retry_guard::ConcurrencyLimiter::Options WorkersAndQueue() {
    retry_guard::ConcurrencyLimiter::Options options;
    options.max_concurrent = kWorkers + kQueueLimit;
    return options;
  }

  SharedPage& page_;
  retry_guard::ConcurrencyLimiter limiter_{WorkersAndQueue()};
  WorkerPool pool_;
};

}  // namespace

WorkerPool::WorkerPool(const SharedPage& levers, uint64_t seed)
    : levers_(levers), random_(seed) {
  for (int i = 0; i < kWorkers; ++i) workers_.emplace_back([this] { Work(); });
}

void WorkerPool::Submit(Done done) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(done));
  }
  not_empty_.notify_one();
}

void WorkerPool::Work() {
  for (;;) {
    const Done done = Next();
    // Sleeping, not spinning: the work stands for a disk or a database, and the
    // machine is shared with the load.
    SleepUntil(SteadyNow() +
               absl::Microseconds(levers_.service_time_us.load()));
    done(Answer());
  }
}

WorkerPool::Done WorkerPool::Next() {
  std::unique_lock lock(mutex_);
  not_empty_.wait(lock, [this] { return !queue_.empty(); });
  Done done = std::move(queue_.front());
  queue_.pop_front();
  return done;
}

grpc::Status WorkerPool::Answer() {
  const int one_in = levers_.one_in_fails;
  if (one_in == 0) return grpc::Status::OK;
  std::lock_guard lock(mutex_);
  // One at a random place in each row of `one_in`: as random as the toss of a
  // coin to whoever calls, but no seed makes the blip lighter than it should
  // be.
  if (answers_left_ == 0) {
    answers_left_ = one_in;
    unlucky_ = std::uniform_int_distribution<int>(1, one_in)(random_);
  }
  if (answers_left_-- != unlucky_) return grpc::Status::OK;
  return {grpc::StatusCode::UNAVAILABLE, "bad luck"};
}

int RunBackend(int port, int shared_fd, uint64_t seed) {
  // Not to be left behind when the parent is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const SharedMapping mapping = SharedMapping::Open(shared_fd);
  BackendService service(mapping.page(), seed);
  grpc::ServerBuilder builder;
  int bound_port = 0;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                           grpc::InsecureServerCredentials(), &bound_port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound_port != port) {
    std::fprintf(stderr, "storm: cannot listen on 127.0.0.1:%d\n", port);
    std::_Exit(1);  // the workers never end
  }
  mapping.page().serving = true;
  server->Wait();
  return 0;
}

}  // namespace storm
