#pragma once

#include <cstdint>
#include <memory>
#include <rowlock/transaction.hpp>
#include <string>

namespace rowlock::demo {

/// Counters in a table, seen through a connection of the program's own, by the database's own driver.
class counters {
 public:
  counters() = default;
  virtual ~counters() = default;
  counters(counters const&) = delete;
  counters& operator=(counters const&) = delete;

  virtual void execute(std::string const& sql) = 0;
  virtual std::int64_t number(std::string const& query) = 0;
  virtual void begin() = 0;
  virtual void commit() = 0;  ///< the driver's execute_commit()
  virtual void roll_back() = 0;
  /// rowlock's view of the connection's transaction; made once.
  virtual basic_transaction& view(lock_manager&) = 0;

  std::int64_t read(int counter);
  /// Not "value + 1" in the server, which would need no lock: what was read may come from anywhere.
  void write(int counter, std::int64_t value);
  /// Makes the table anew.
  void make(int how_many);
  std::int64_t sum();
};

/// `url`: as for rowlock.
std::unique_ptr<counters> connect(std::string const& url);

}  // namespace rowlock::demo
