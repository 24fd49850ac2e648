#pragma once
// The wait queues of an SQLite database: a small file beside it. rowlock trusts nothing in it, and it may be
// removed at any time. See lib/doc/waiting.md.

#include <cstdint>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>

#include "backend/backend.hpp"
#include "base/fork_epoch.hpp"

namespace rowlock::backend::sqlite {

/// One session's queue place. One thread at a time uses it.
class queue_file {
 public:
  /// `path`: of the database. Opens nothing yet.
  explicit queue_file(std::string const& path);
  ~queue_file();
  queue_file(queue_file const&) = delete;
  queue_file& operator=(queue_file const&) = delete;

  /// Waits until it is first in queue `key`, until `until`, or until `stop`.
  /// @throws error if the file can't be used
  queue_entry enter(std::uint64_t key, boot_time_point until, std::stop_token const& stop);
  /// @return whether other sessions wait there, or one is first now
  bool leave() noexcept;
  /// Whether a session waits in queue `key`, or is first there.
  bool is_waited_for(std::uint64_t key) noexcept;

  /// Gives up the queue place.
  void close() noexcept;

 private:
  class place_in_line;
  enum class awakening { woken, too_late, anew };

  bool open(bool or_make);
  void make();
  bool is_ours() const noexcept;
  void check();
  bool lock(short how, std::uint64_t at) noexcept;
  bool is_locked(std::uint64_t at) const noexcept;
  awakening sleep(std::uint32_t seen, std::chrono::nanoseconds at_most);
  std::uint32_t word() const noexcept;
  void wake(int how_many) const noexcept;
  [[noreturn]] void refuse(int problem, char const* what);

  std::string database_;
  std::string path_;
  unsigned epoch_ = base::fork_epoch();  ///< a forked child has closed it
  int fd_ = -1;
  void* words_ = nullptr;  ///< never read: a file cut short would end the program (SIGBUS)
  std::uint64_t key_ = 0;  ///< of the last queue
};

}  // namespace rowlock::backend::sqlite
