#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>

namespace rowlock::torture {

/// Of the lock that keeps the tables. After a fault that may have lost locks nothing is granted for so long.
inline constexpr std::chrono::seconds keepers_ttl(5);

/// The tables torture_* of a database; dropped at the end, if the database lets us. Whoever has a lock in
/// them that is none of rowlock-torture's keeps them, and so does another rowlock-torture that is at work:
/// its tables would be dropped. This process must have no other thread.
class own_tables {
 public:
  /// @throws std::exception if they can't be made, or are somebody else's
  explicit own_tables(std::string const& db);
  own_tables(own_tables const&) = delete;
  own_tables& operator=(own_tables const&) = delete;
  ~own_tables();

 private:
  struct somebody_elses : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  /// A process that has a lock in them, as long as this exists.
  class keeper {
   public:
    /// @throws somebody_elses if another one has it; std::runtime_error if it can't ask
    explicit keeper(std::string const& db);
    keeper(keeper const&) = delete;
    keeper& operator=(keeper const&) = delete;
    ~keeper();

   private:
    void end() const noexcept;

    pid_t pid_ = 0;
  };

  void drop() noexcept;

  migrator migrator_;
  std::unique_ptr<keeper> keeper_;
};

}  // namespace rowlock::torture
