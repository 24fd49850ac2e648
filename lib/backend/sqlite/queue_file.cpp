// A wait queue is a byte of the file, locked by the first session. All waiters share a lock of the next byte.
// The bytes lie far beyond the file's end, so each name has its own. The kernel frees locks of an open file
// (fcntl(2), F_OFD_SETLK) when a process dies. They have no order and no time-out. So waiters sleep on a word
// of the file (futex(2)). A session that leaves changes the word, and wakes the waiter that has slept
// longest.

#include "backend/sqlite/queue_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <random>
#include <rowlock/error.hpp>
#include <string_view>
#include <system_error>
#include <thread>

#include "backend/sqlite/process.hpp"

namespace rowlock::backend::sqlite {

using namespace std::chrono_literals;

namespace {

// Distinguishes the file from all others.
constexpr std::string_view magic = "rowlock: who waits for a lock of the SQLite database beside it 1";
constexpr std::uint64_t words = 4096;
constexpr std::size_t size = magic.size() + words * sizeof(std::uint32_t);

static_assert(magic.size() % sizeof(std::uint32_t) == 0);

constexpr std::uint64_t slot(std::uint64_t key) { return magic.size() + key % words * sizeof(std::uint32_t); }
// Distinguishes names that share a word.
constexpr std::uint32_t bit(std::uint64_t key) { return std::uint32_t{1} << (key / words % 32); }

constexpr std::uint64_t queue_byte(std::uint64_t key) { return (key >> 2 << 1) + (std::uint64_t{1} << 20); }
constexpr std::uint64_t line_byte(std::uint64_t key) { return queue_byte(key) + 1; }

struct flock range(short how, std::uint64_t at) noexcept {
  struct flock r {};
  r.l_type = how;
  r.l_whence = SEEK_SET;
  r.l_start = static_cast<off_t>(at);
  r.l_len = 1;
  return r;
}

// A woken waiter that dies or is stopped wakes no other one. So each waiter looks after this time: random,
// and long, because a look costs the place in the order.
std::chrono::milliseconds longest_sleep() {
  thread_local std::minstd_rand generator(
      static_cast<unsigned>(boot_clock::now().time_since_epoch().count()));
  return std::chrono::milliseconds(std::uniform_int_distribution<int>(200, 300)(generator));
}

// The queue is free but has waiters: the one that was woken just now goes first.
constexpr auto courtesy = 10ms;

// A shortage of this process or machine might pass.
errc reason_of(int problem) noexcept {
  switch (problem) {
    case EACCES:
    case EPERM:
      return errc::access_denied;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
    case ENOSPC:
    case EDQUOT:
    case EAGAIN:
      return errc::unreachable;
    default:
      return errc::failed;
  }
}

}  // namespace

class queue_file::place_in_line {
 public:
  explicit place_in_line(queue_file& f) : file_(f) {
    if (!file_.lock(F_RDLCK, line_byte(file_.key_))) file_.refuse(errno, "locked");
  }
  ~place_in_line() { (void)file_.lock(F_UNLCK, line_byte(file_.key_)); }
  place_in_line(place_in_line const&) = delete;
  place_in_line& operator=(place_in_line const&) = delete;

 private:
  queue_file& file_;
};

queue_file::queue_file(std::string const& path) : database_(path), path_(path + "-rowlock") {}

queue_file::~queue_file() { close(); }

queue_entry queue_file::enter(std::uint64_t key, boot_time_point until, std::stop_token const& stop) {
  if (fd_ >= 0) check();
  if (fd_ < 0) open(true);
  key_ = key;
  bool may_try = !is_locked(line_byte(key));
  if (may_try && lock(F_WRLCK, queue_byte(key))) return queue_entry::was_free;
  place_in_line const mine(*this);
  std::stop_callback const stopped(stop, [this] { wake(INT_MAX); });
  while (true) {
    auto const seen = word();
    if (may_try && lock(F_WRLCK, queue_byte(key))) return queue_entry::in_its_turn;
    auto const left = until - boot_clock::now();
    if (stop.stop_requested() || left <= 0s) break;
    auto const pause = is_locked(queue_byte(key)) ? longest_sleep() : courtesy;
    if (sleep(seen, std::min<std::chrono::nanoseconds>(left, pause)) != awakening::anew) may_try = true;
  }
  // A wake-up of this very moment goes to the next waiter.
  if (!is_locked(queue_byte(key))) wake(1);
  return queue_entry::not_mine;
}

bool queue_file::leave() noexcept {
  if (fd_ < 0 || !lock(F_UNLCK, queue_byte(key_))) return false;
  if (!is_waited_for(key_)) return false;
  wake(1);
  return true;
}

bool queue_file::is_waited_for(std::uint64_t key) noexcept try {
  struct stat found {};
  // Removed: new waiters use another file.
  if (fd_ >= 0 && (::fstat(fd_, &found) != 0 || found.st_nlink == 0)) close();
  if (fd_ < 0 && !open(false)) return false;
  return is_locked(line_byte(key)) || is_locked(queue_byte(key));
} catch (std::exception const&) {  // enter() reports the reason
  return false;
}

void queue_file::check() {
  struct stat ours {};
  struct stat there {};
  if (::fstat(fd_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
      ours.st_dev == there.st_dev && there.st_size == static_cast<off_t>(size))
    return;
  close();
}

bool queue_file::open(bool or_make) {
  // EACCES can pass: the process that makes the file is about to set its mode. A release does not wait.
  int const attempts = or_make ? 3 : 1;
  for (int attempt = 0; fd_ < 0 && attempt < attempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(1ms);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd_ < 0 && errno == ENOENT) {
      if (!or_make) return false;
      make();
    }
    if (fd_ < 0 && errno != EACCES && errno != EEXIST) break;
  }
  if (fd_ < 0) refuse(errno, "opened");
  remember_queue(fd_);
  struct stat found {};
  if (::fstat(fd_, &found) != 0) refuse(errno, "read");
  if (!S_ISREG(found.st_mode) || found.st_nlink != 1 || found.st_size > static_cast<off_t>(size) ||
      !is_ours())
    refuse(0, "used");
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0 ||
      ::pwrite(fd_, magic.data(), magic.size(), 0) != static_cast<ssize_t>(magic.size()))
    refuse(errno, "written");
  words_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (words_ == MAP_FAILED) {
    words_ = nullptr;
    refuse(errno, "mapped");
  }
  // A child's mapping would keep the file open, and so its locks.
  if (::madvise(words_, size, MADV_DONTFORK) != 0) refuse(errno, "mapped");
  return true;
}

// True also for an unfinished or shortened file.
bool queue_file::is_ours() const noexcept {
  std::array<char, magic.size()> begin{};
  auto const n = ::pread(fd_, begin.data(), begin.size(), 0);
  std::string_view const text(begin.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  return text == magic.substr(0, text.size()) || text.find_first_not_of('\0') == std::string_view::npos;
}

// With the database's mode and owner, as SQLite makes the files beside it.
void queue_file::make() {
  struct stat theirs {};
  if (::stat(database_.c_str(), &theirs) != 0) return;
  auto const mode = theirs.st_mode & 0777U;
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd_ < 0) return;
  if (::geteuid() == 0) (void)!::fchown(fd_, theirs.st_uid, theirs.st_gid);
  (void)::fchmod(fd_, mode);
}

void queue_file::close() noexcept {
  if (epoch_ != base::fork_epoch()) return;
  if (words_ != nullptr) ::munmap(words_, size);
  words_ = nullptr;
  if (fd_ >= 0) {
    forget_queue(fd_);
    ::close(fd_);
  }
  fd_ = -1;
}

bool queue_file::lock(short how, std::uint64_t at) noexcept {
  auto r = range(how, at);
  return ::fcntl(fd_, F_OFD_SETLK, &r) == 0;
}

bool queue_file::is_locked(std::uint64_t at) const noexcept {
  auto r = range(F_WRLCK, at);
  return ::fcntl(fd_, F_OFD_GETLK, &r) == 0 && r.l_type != F_UNLCK;
}

std::uint32_t queue_file::word() const noexcept {
  std::uint32_t now = 0;
  (void)!::pread(fd_, &now, sizeof now, static_cast<off_t>(slot(key_)));
  return now;
}

// Any other number will do. On a full disk a waiter about to sleep can miss this.
void queue_file::wake(int how_many) const noexcept {
  auto const next = word() + 1;
  (void)!::pwrite(fd_, &next, sizeof next, static_cast<off_t>(slot(key_)));
  auto* const at = static_cast<char*>(words_) + slot(key_);
  ::syscall(SYS_futex, at, FUTEX_WAKE_BITSET, how_many, nullptr, nullptr, bit(key_));
}

queue_file::awakening queue_file::sleep(std::uint32_t seen, std::chrono::nanoseconds at_most) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  auto const then = std::chrono::seconds(until.tv_sec) + std::chrono::nanoseconds(until.tv_nsec) + at_most;
  auto const whole = std::chrono::floor<std::chrono::seconds>(then);
  until = {whole.count(), (then - whole).count()};
  auto* const at = static_cast<char*>(words_) + slot(key_);
  if (::syscall(SYS_futex, at, FUTEX_WAIT_BITSET, seen, &until, nullptr, bit(key_)) == 0)
    return awakening::woken;
  if (errno == ETIMEDOUT) return awakening::too_late;
  if (errno == EAGAIN || errno == EINTR) return awakening::anew;
  refuse(errno, "waited at");
}

void queue_file::refuse(int problem, char const* what) {
  close();
  auto const why =
      problem == 0 ? "it is another file, or has two names" : std::generic_category().message(problem);
  throw error(reason_of(problem),
              fmt::format("{}: the file in which processes line up can't be {}: {}", path_, what, why),
              "queue", "", problem);
}

}  // namespace rowlock::backend::sqlite
