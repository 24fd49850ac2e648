#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "process/descriptor.hpp"
#include "process/signals.hpp"
#include "text.hpp"
#include "top/screen.hpp"
#include "top/table.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct options {
  std::string glob;
  std::optional<std::chrono::milliseconds> every;
  std::size_t limit = 10'000;
  std::size_t width = 0;
  std::string sort = "name";
  bool once = false;
};

/// The database, for one thread. Each reading asks for the list once.
class source {
 public:
  source(database const& db, options const& o) : db_(db) {
    wanted_.glob = o.glob;
    wanted_.limit = o.limit;
    wanted_.row_locks = true;
  }

  reading read() {
    auto const began = steady_clock::now();
    reading r;
    r.locks = manager().list(wanted_);
    r.answered_at = steady_clock::now();
    r.at = std::chrono::system_clock::now();
    r.took = std::chrono::duration_cast<std::chrono::milliseconds>(r.answered_at - began);
    std::size_t names = 0;
    for (std::size_t i = 0; i < r.locks.size(); ++i)
      names += i == 0 || r.locks[i].name != r.locks[i - 1].name ? 1 : 0;
    r.cut = names == wanted_.limit;
    return r;
  }

  std::string revoke(wish const& w) {
    bool const held = manager().revoke(w.name, revoke_mode::at_renewal, w.only);
    return held ? fmt::format("'{}' was revoked: its holder gives it back at its next renewal", w.name)
                : fmt::format("'{}' has no holder", w.name);
  }

 private:
  lock_manager& manager() {
    if (!manager_)
      with_standard_file(db_, [&] {
        manager_options o;
        o.table_prefix = db_.table_prefix;
        o.schema = db_.schema;
        o.connections = 1;
        manager_.emplace(db_.url, o);
        manager_->connect();
      });
    return *manager_;
  }

  database const& db_;
  list_options wanted_;
  std::optional<lock_manager> manager_;
};

/// Asks the database on a thread of its own, so that keys and signals never wait for it, and no signal
/// interrupts a question. One job at a time.
class reader {
 public:
  struct answer {
    std::optional<reading> read;
    std::string done;          ///< what became of the revocation
    std::exception_ptr error;  ///< of either
  };

  explicit reader(source& from) : from_(from), thread_([this](std::stop_token const& stop) { work(stop); }) {}

  /// Readable while there is an answer.
  int fd() const noexcept { return ready_.get(); }
  bool busy() const {
    std::lock_guard const hold(guard_);
    return job_.has_value();
  }
  /// Precondition: not busy
  void start(wish job) {
    std::lock_guard const hold(guard_);
    job_ = std::move(job);
    changed_.notify_all();
  }
  std::optional<answer> take() {
    std::lock_guard const hold(guard_);
    if (!answer_) return std::nullopt;
    std::uint64_t count = 0;
    (void)!::read(ready_.get(), &count, sizeof count);
    job_.reset();
    return std::exchange(answer_, std::nullopt);
  }

 private:
  void work(std::stop_token const& stop) {
    std::unique_lock hold(guard_);
    while (changed_.wait(hold, stop, [&] { return job_ && !answer_; })) {
      auto const job = *job_;
      hold.unlock();
      answer a;
      try {
        if (job.what == wish::kind::revoke) a.done = from_.revoke(job);
        a.read = from_.read();
      } catch (...) {
        a.error = std::current_exception();
      }
      hold.lock();
      answer_ = std::move(a);
      std::uint64_t const one = 1;
      (void)!::write(ready_.get(), &one, sizeof one);
    }
  }

  source& from_;
  descriptor const ready_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutable guard_;
  std::condition_variable_any changed_;
  std::optional<wish> job_;
  std::optional<answer> answer_;
  std::jthread thread_;
};

/// Blocked for all threads that start later, and read from a descriptor.
descriptor signals_as_file() {
  sigset_t all;
  ::sigemptyset(&all);
  for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP}) ::sigaddset(&all, signal);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  return descriptor(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// The loop of the live table.
class live {
 public:
  live(source& from, top_table& table) : table_(table), signals_(signals_as_file()), reader_(from) {}

  end_of_program run() {
    screen_.emplace();
    while (!end_) {
      if (steady_clock::now() >= next_ && !reader_.busy()) start({});
      screen_->draw(table_);
      wait();
      obey_signals();
      if (!end_) press_keys();
      take_answer();
    }
    screen_.reset();
    if (failed_) std::rethrow_exception(failed_);
    if (reader_.busy()) leave();
    return *end_;
  }

 private:
  void start(wish job) {
    began_ = steady_clock::now();
    next_ = began_ + table_.pause();
    reader_.start(std::move(job));
  }

  void wait() {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(next_ - steady_clock::now());
    int const patience =
        reader_.busy() ? -1 : static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    std::array<pollfd, 3> files{
        {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}, {reader_.fd(), POLLIN, 0}}};
    ::poll(files.data(), files.size(), patience);
    if ((files[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) end_ = end_of_program{exit_output, {}};
  }

  void obey_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      auto const signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGWINCH) {
        screen_->resize();
      } else if (signal == SIGTSTP) {
        screen_->suspend();
        ::raise(SIGSTOP);
        screen_->resume();
      } else {
        end_ = end_of_program{128 + signal, signal};
      }
    }
  }

  void press_keys() {
    while (auto const k = screen_->pressed()) {
      auto const w = table_.press(*k);
      if (w.what == wish::kind::quit) end_ = end_of_program{};
      if (w.what == wish::kind::revoke) revocation_ = w;
      if (end_) return;
    }
    if (revocation_ && !reader_.busy()) start(*std::exchange(revocation_, std::nullopt));
  }

  void take_answer() {
    auto a = reader_.take();
    if (!a) return;
    if (!a->done.empty()) table_.tell(a->done);
    if (a->read) {
      table_.take(*std::move(a->read));
      had_one_ = true;
      next_ = began_ + table_.pause();
    }
    if (a->error) fail(a->error);
    if (revocation_ && !end_) start(*std::exchange(revocation_, std::nullopt));
  }

  /// The first reading's error ends the program, as of any command.
  void fail(std::exception_ptr const& error) try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    table_.fail(e.what());
    if (had_one_) return;
    failed_ = error;
    end_ = end_of_program{};
  }

  /// Without waiting for a database that does not answer: its session ends with this process.
  [[noreturn]] void leave() {
    std::fflush(stdout);
    if (end_->signal) die_by(*end_->signal);
    ::_exit(end_->status);
  }

  top_table& table_;
  descriptor signals_;
  reader reader_;
  std::optional<screen> screen_;
  steady_clock::time_point began_{};
  steady_clock::time_point next_{};
  std::optional<wish> revocation_;
  bool had_one_ = false;
  std::exception_ptr failed_;
  std::optional<end_of_program> end_;
};

nlohmann::ordered_json in_json(reading const& r) {
  auto locks = nlohmann::ordered_json::array();
  for (auto const& lock : r.locks) {
    auto sessions = nlohmann::ordered_json::array();
    for (auto const& s : lock.row_locked_by)
      sessions.push_back(
          {{"session", s.session}, {"host", s.host}, {"application", s.application}, {"user", s.user}});
    auto one = to_json(lock);
    one["row_locked_by"] = std::move(sessions);
    locks.push_back(std::move(one));
  }
  return {
      {"read_at", iso_utc(r.at)}, {"took_ms", r.took.count()}, {"cut", r.cut}, {"locks", std::move(locks)}};
}

/// Where nothing says how wide, nothing is cut.
std::size_t plain_width(options const& o) {
  constexpr std::size_t uncut = 10'000;
  winsize size{};
  if (o.width > 0) return o.width;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : uncut;
}

end_of_program top(invocation& call, options const& o) {
  auto const every = o.every.value_or(1s);
  if (every < 100ms || every > 1h)
    throw failure(exit_usage, fmt::format("--every {} is out of range: 100ms to 1h", exact_duration(every)));
  auto const& db = call.use_database();
  source from(db, o);
  std::setlocale(LC_CTYPE, "");
  // Names are printed as they are, in UTF-8, as by the other commands.
  bool const utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  top_table table(fmt::format("rowlock top{}", o.glob.empty() ? "" : " " + printable(o.glob)), every,
                  *order_of(o.sort));
  if (!call.json && !o.once && screen::possible()) return live(from, table).run();
  auto read = from.read();
  if (call.json) {
    fmt::print("{}\n", in_json(read).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  if (!utf8) std::setlocale(LC_CTYPE, "C.UTF-8");
  table.take(std::move(read));
  fmt::print("{}", table.plain(plain_width(o)));
  return {};
}

}  // namespace

void add_top(CLI::App& app, invocation& call) {
  auto const o = std::make_shared<options>();
  auto* command = app.add_subcommand("top", "Shows the locks live: holders, waiters, what blocks a row");
  command->fallthrough();
  command->add_option("GLOB", o->glob, "Only names that match, as the shell matches: 'job-*' (quote it)");
  add_duration(*command, "--every", o->every, "Time from one reading to the next; default: 1s");
  command->add_option("--sort", o->sort, fmt::format("Sort by {}; default: name", order_words))
      ->type_name("COLUMN")
      ->check([](std::string const& word) {
        return order_of(word) ? std::string()
                              : fmt::format("'{}' is not a column; write {}", word, order_words);
      });
  command
      ->add_option("--limit", o->limit, "At most so many names, the first ones in byte order; default: 10000")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--once", o->once, "Print the table once, as plain text; also without a terminal");
  command
      ->add_option("--width", o->width, "Columns of that text; default: the terminal's, else nothing is cut")
      ->type_name("N")
      ->check(CLI::Range(20, 10'000));
  command->footer(R"(
A table of all held locks, read again each second. Keys: Up, Down, PgUp, PgDn, Home and End choose a lock, Enter shows all
that is known of it, / shows only what has a text in its name, owner, state or note, s and S sort by another column, r turns
the order round, x revokes the lock after a question (its holder gives it back at its next renewal), h is the help, q quits.

Columns: NAME; STATE as in `rowlock list`; USED, units of all holders of a semaphore and its limit; OWNER; SINCE, by the
database's clock; LEFT, until it is free unless it is renewed; WAIT, processes in the server's wait queue, - where the
database does not tell; BLOCKER, the database session whose open transaction has the lock's row locked, where it tells that;
TOKEN and NOTE. A narrow terminal shows the most important ones, and Enter shows the rest.
Hand-overs per second are changes of holder between two readings. One reading is one list: its cost for the server is that
of `rowlock list`. If the database answers slowly, readings are rarer: they take at most a tenth of the time.

Without a terminal, or on one whose cursor can't be moved (TERM=dumb), the table is printed once. --json prints one reading:
"locks" as `rowlock list --json` has them, and "row_locked_by" of each. NO_COLOR=1 leaves the colours out.

Examples:
  rowlock top
  rowlock top 'job-*' --every 5s
  rowlock top --once --sort waiting --width 100

Exit status: 0 done; 64, 69, 70, 71, 74, 75, 77, 78 as for all commands (rowlock --help).)");
  command->callback([&call, o] { call.chosen = [&call, o] { return top(call, *o); }; });
}

}  // namespace rowlock::tool
