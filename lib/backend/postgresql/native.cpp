#include "backend/postgresql/native.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/per_process.hpp"
#include "base/printable.hpp"
#include "base/process_end.hpp"

namespace rowlock::backend::postgresql {
namespace {

using namespace std::chrono_literals;

std::string_view field(PGresult const* r, int which) {
  char const* text = PQresultErrorField(r, which);
  return text == nullptr ? std::string_view{} : text;
}

}  // namespace

namespace {

// At most two descriptors, libpq's first. It is -1 after libpq has closed an unreadable connection: poll
// would wait in vain. In slices, because poll's clock stops while the machine sleeps.
bool wait_for_any(std::span<pollfd> fds, boot_time_point deadline) {
  if (fds.front().fd < 0) return true;  // the next read reports it
  for (;;) {
    auto const left = deadline - boot_clock::now();
    if (left <= 0ns) return false;
    auto const slice = std::min<std::chrono::nanoseconds>(left, 1s);
    int const ready = ::poll(fds.data(), fds.size(),
                             static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(slice).count()));
    base::stay_out_of_ended_drivers();
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // the next read reports an error
  }
}

}  // namespace

bool wait_for(int fd, short events, boot_time_point deadline) {
  std::array<pollfd, 1> fds{{{fd, events, 0}}};
  return wait_for_any(fds, deadline);
}

bool wait_for(int fd, short events, boot_time_point deadline, base::stop_event const& stop) {
  std::array<pollfd, 2> fds{{{fd, events, 0}, {stop.fd(), POLLIN, 0}}};
  return wait_for_any(fds, deadline);
}

namespace {

void say_lost(PGconn const* c, reply& r) {
  r.how = reply::outcome::lost;
  r.message = one_line(PQerrorMessage(c));
  // The server's last message says more than libpq's.
  for (auto const& one : r.results)
    if (PQresultStatus(one.get()) == PGRES_FATAL_ERROR) {
      r.message = one_line(PQresultErrorMessage(one.get()));
      break;
    }
}

/// @return false if the reply is lost, and reading ends
bool keep(reply& r, native_result next) {
  auto const status = PQresultStatus(next.get());
  r.results.push_back(std::move(next));
  // libpq returns it again and again.
  bool const copies = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
  if (!copies && r.size.add_result()) return true;
  r.how = reply::outcome::lost;
  r.message = copies ? "COPY can't be used here" : too_long_reply;
  return false;
}

/// Limits a reply's bytes, from its second read on. The first read ends with libpq's buffer, and mostly
/// completes the reply. Then libpq makes room for a long message, and reads as long as more comes, within one
/// call.
class reply_limit {
 public:
  reply_limit(std::shared_ptr<wire> on, std::uint64_t most_bytes)
      : on_(std::move(on)), most_bytes_(most_bytes) {}
  void before_read() {
    if (++reads_ == 2 && on_)
      limit_.emplace(base::per_process<wire_watch>(), on_, boot_time_point::max(), most_bytes_);
  }

 private:
  std::shared_ptr<wire> on_;
  std::uint64_t most_bytes_;
  int reads_ = 0;
  std::optional<wire_watch::scope> limit_;
};

void take_pipelined(PGconn* c, reply& r) {
  bool between = false;  // a null follows each statement's results
  while (!PQisBusy(c)) {
    native_result next(PQgetResult(c));
    if (!next && std::exchange(between, true)) return;
    if (!next) continue;
    between = false;
    if (PQresultStatus(next.get()) == PGRES_PIPELINE_SYNC) {
      r.how = reply::outcome::complete;
      return;
    }
    if (!keep(r, std::move(next))) return;
  }
}

reply collect_pipeline(PGconn* c, boot_time_point deadline, base::stop_event const* stop,
                       reply_limit& limit) {
  auto const stopped = [stop] { return stop != nullptr && stop->triggered(); };
  reply r;
  r.how = reply::outcome::timed_out;  // so far
  r.message = "no reply in time";
  for (;;) {
    int const unsent = PQflush(c);
    if (unsent == 0) {
      take_pipelined(c, r);
      if (r.how != reply::outcome::timed_out) return r;
    }
    if (stopped()) {
      r.how = reply::outcome::stopped;
      return r;
    }
    auto const events = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN);
    bool const ready = stop == nullptr ? wait_for(PQsocket(c), events, deadline)
                                       : wait_for(PQsocket(c), events, deadline, *stop);
    if (!ready) return r;
    if (stopped()) continue;
    limit.before_read();
    if (unsent < 0 || PQconsumeInput(c) == 0) {
      take_pipelined(c, r);
      say_lost(c, r);
      return r;
    }
  }
}

}  // namespace

channel::channel(native_connection c) : connection_(std::move(c)), wire_(wire::of(PQsocket(native()))) {
  PQsetNoticeReceiver(native(), &channel::on_notice, this);
  PQsetErrorVerbosity(native(), PQERRORS_DEFAULT);
  PQsetnonblocking(native(), 1);
}

channel::~channel() { close(); }

bool channel::forked() const noexcept { return epoch_ != base::fork_epoch(); }

void channel::on_notice(void* self, PGresult const* notice) {
  auto& me = *static_cast<channel*>(self);
  auto const severity = field(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  auto const state = field(notice, PG_DIAG_SQLSTATE);
  // By this message the server ends an idle session. At an immediate shutdown, or after a crash of another
  // server process (57P02), it is only a warning.
  if (severity == "FATAL" || severity == "PANIC" || state == "57P02") me.ended_ = true;
  // The wait for a synchronous standby was cancelled: the commit is acknowledged, but can be lost with this
  // server. Other warnings, also a trigger's, have the same state.
  auto const function = field(notice, PG_DIAG_SOURCE_FUNCTION);
  if (state == "01000" && (function.empty() || function == "SyncRepWaitForLSN")) me.only_local_ = true;
}

bool channel::alive() {
  if (!open() || ended_ || PQstatus(native()) != CONNECTION_OK) return false;
  // Reads the server's last message before the end of the connection.
  for (int reads = 0; reads < 100; ++reads) {
    pollfd one{PQsocket(native()), POLLIN, 0};
    if (::poll(&one, 1, 0) <= 0) return true;
    bool const readable = PQconsumeInput(native()) == 1;
    PQisBusy(native());  // passes the input to on_notice
    if (!readable || ended_ || PQstatus(native()) != CONNECTION_OK) return false;
  }
  return true;
}

void channel::take_results(reply& r) {
  while (!PQisBusy(native())) {
    native_result next(PQgetResult(native()));
    if (!next) {
      r.how = reply::outcome::complete;
      return;
    }
    if (!keep(r, std::move(next))) return;
  }
  r.how = reply::outcome::timed_out;  // so far
}

reply channel::collect(boot_time_point deadline) {
  // The deadline is kept here, and is no end of the connection: a wait may still be cancelled.
  reply_limit limit(wire_, most_bytes_);
  reply r;
  only_local_ = false;
  for (;;) {
    int const unsent = PQflush(native());
    if (unsent == 0) {
      take_results(r);
      if (r.how != reply::outcome::timed_out) break;
    }
    if (!wait_for(PQsocket(native()), static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), deadline)) {
      r.how = reply::outcome::timed_out;
      r.message = "no reply in time";
      return r;
    }
    limit.before_read();
    if (unsent < 0 || PQconsumeInput(native()) == 0) {
      // What the server said last, and then libpq's own words; none of these calls waits any more.
      while (native_result next{PQgetResult(native())})
        if (!keep(r, std::move(next))) break;
      break;
    }
  }
  if (PQstatus(native()) != CONNECTION_OK && r.how != reply::outcome::lost) say_lost(native(), r);
  end_reply(r);
  return r;
}

void channel::end_reply(reply& r) {
  r.only_local = only_local_;
  if (wire_ && wire_->overrun()) r.message = too_long_reply;
  // Unasked; libpq keeps them until they are fetched.
  while (PGnotify* const one = PQnotifies(native())) PQfreemem(one);
}

reply channel::collect_pipelined(boot_time_point deadline, base::stop_event const* stop) {
  reply_limit limit(wire_, most_bytes_);
  only_local_ = false;
  auto r = collect_pipeline(native(), deadline, stop, limit);
  end_reply(r);
  return r;
}

void channel::close() noexcept {
  if (!forked()) {
    base::driver_call const now;
    return connection_.reset();
  }
  // PQfinish would end the parent's session. Closing our copy of the socket does not.
  if (auto* leaked = connection_.release(); leaked != nullptr) ::close(PQsocket(leaked));
}

std::string channel::error_message() const {
  return open() ? one_line(PQerrorMessage(native())) : std::string{};
}

std::string one_line(std::string_view message) {
  std::string out;
  for (std::size_t at = 0; at < message.size();) {
    auto const end = std::min(message.find('\n', at), message.size());
    auto line = message.substr(at, end - at);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.empty()) {
      if (!out.empty()) out += "; ";
      out += line;
    }
    at = end + 1;
  }
  return base::printable(out);
}

}  // namespace rowlock::backend::postgresql
