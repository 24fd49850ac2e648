#pragma once
// A transaction of somebody else's.

#include "contract/fixture.hpp"

namespace rowlock::test {

/// Open until commit(), or as long as it lives.
class open_transaction {
 public:
  explicit open_transaction(fixture& f) : names_(f.tables()), session_(f.connect()) { run(begin_of(f)); }
  void run(std::string const& sql) { session_->script(names_.render(sql), boot_clock::now() + 30s); }
  void commit() { run("COMMIT"); }

 private:
  backend::table_names names_;
  std::unique_ptr<backend::connection> session_;
};

}  // namespace rowlock::test
