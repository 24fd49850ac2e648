#pragma once
// Wait queues of an SQLite database: a small file beside it, in which processes of this machine line up.
// Nothing in it is trusted, and it may be removed at any time.

#include <sys/types.h>

#include <cstdint>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::backend::sqlite {

/// One session's place in it. Used by one thread at a time.
class queue_file {
 public:
  /// Of the database at `path`. Nothing is opened or made before somebody waits.
  explicit queue_file(std::string const& path);
  ~queue_file();
  queue_file(queue_file const&) = delete;
  queue_file& operator=(queue_file const&) = delete;

  /// Waits for the wait queue `key` until `until`, or until `stop` is triggered.
  /// @throws error if the file can't be used
  queue_entry enter(std::uint64_t key, boot_time_point until, std::stop_token const& stop);
  /// @return whether others wait there, or one of them has it now
  bool leave() noexcept;
  /// Whether somebody waits at the wait queue `key`, or has it.
  bool is_waited_for(std::uint64_t key) noexcept;

  /// Leaves whatever wait queue it has, and the line.
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
  pid_t process_;  ///< in a forked child it is closed already
  int fd_ = -1;
  void* words_ = nullptr;  ///< never read: who cuts the file short would end the program (SIGBUS)
  std::uint64_t key_ = 0;  ///< of the wait queue that is waited for, or had
};

}  // namespace rowlock::backend::sqlite
