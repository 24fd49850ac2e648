#include "own_tables.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "printable.hpp"
#include "signals.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

constexpr char const* tables_prefix = "torture_";
constexpr char const* own_name = "rowlock-torture";
/// As long as one that was killed keeps others away, and a bit more.
constexpr auto keepers_patience = 8s;

bool is_ours(std::string const& name) {
  return name.starts_with("torture/") || name == own_name || name == "rowlock.reaper";
}

/// @return what is in the way; empty: nothing, and it is kept from others until this process ends
std::string keep(lock_manager& m) {
  for (auto const& each : m.list({.idle = true}))
    if (!is_ours(each.name))
      return fmt::format(
          "the table {}locks has a lock that is none of rowlock-torture's, '{}': it is not used, and not "
          "dropped",
          tables_prefix, each.name);
  mutex_options how;
  how.ttl = keepers_ttl;
  // No nemesis's clock is to end it.
  how.takeover = takeover::observed;
  auto got = m.make_mutex(own_name, how).try_acquire_for(keepers_patience);
  if (!got) {
    auto const& holder = got.holder();
    return fmt::format(
        "another rowlock-torture is at work on the tables {}* of this database{}", tables_prefix,
        holder ? fmt::format(": process {} on {}", holder->owner.pid, holder->owner.host) : "");
  }
  // It is not given back: whoever waits for it meets no tables, and not those that are just being dropped.
  static acquisition held = std::move(got);
  return {};
}

// How the answer of the keeper begins.
constexpr char kept = 'k';
constexpr char refused = 'r';
constexpr char failed = 'f';

std::string answer_of(int line) {
  std::string text;
  std::array<char, 256> some{};
  for (;;) {
    auto const n = ::read(line, some.data(), some.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed + std::string("the process that was to keep the tables has ended");
    text.append(some.data(), static_cast<std::size_t>(n));
    if (text.back() == '\n') return text.substr(0, text.size() - 1);
  }
}

[[noreturn]] void be_keeper(std::string const& db, int line) noexcept {
  std::string said;
  char result = failed;
  std::unique_ptr<lock_manager> m;
  try {
    manager_options mo;
    mo.table_prefix = tables_prefix;
    m = std::make_unique<lock_manager>(source_from_url(db), mo);
    said = keep(*m);
    result = said.empty() ? kept : refused;
  } catch (error const& e) {
    said = e.what();
    if (e.code() == errc::schema_missing || e.code() == errc::schema_old)
      said += "; is another rowlock-torture at work on them?";
  } catch (std::exception const& e) {
    said = e.what();
  }
  said = result + printable(said) + "\n";
  (void)!::write(line, said.data(), said.size());
  ::close(line);
  for (;;) ::pause();  // until it is killed
}

}  // namespace

own_tables::keeper::keeper(std::string const& db) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  auto const parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    be_child_of(parent, "the process that keeps the tables");
    ::close(ends[0]);
    be_keeper(db, ends[1]);
  }
  auto const why = errno;
  ::close(ends[1]);
  auto const said = pid_ < 0 ? failed + std::generic_category().message(why) : answer_of(ends[0]);
  ::close(ends[0]);
  if (said.front() == kept) return;
  end();
  if (said.front() == refused) throw somebody_elses(said.substr(1));
  throw std::runtime_error(said.substr(1));
}

own_tables::keeper::~keeper() { end(); }

void own_tables::keeper::end() const noexcept {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

own_tables::own_tables(std::string const& db)
    : migrator_(source_from_url(db), {.table_prefix = tables_prefix}) {
  bool const ours = !migrator_.up().empty();
  try {
    keeper_ = std::make_unique<keeper>(db);
  } catch (somebody_elses const&) {
    throw;
  } catch (std::exception const&) {
    if (ours) drop();
    throw;
  }
}

own_tables::~own_tables() {
  keeper_.reset();
  drop();
}

void own_tables::drop() noexcept {
  try {
    migrator_.down(0, true, true);
  } catch (std::exception const& e) {
    on_stderr(fmt::format("the tables {}* are still there: {}\n", tables_prefix, printable(e.what())));
  }
}

}  // namespace rowlock::torture
