#pragma once
#include <libpq-fe.h>

#include <memory>
#include <span>
#include <string>

namespace rowlock::bench {

struct end_of_libpq {
  void operator()(PGconn* c) const noexcept { ::PQfinish(c); }
  void operator()(PGresult* r) const noexcept { ::PQclear(r); }
};
using pg_result = std::unique_ptr<PGresult, end_of_libpq>;

/// A connection by libpq alone. What fails is a peer_error.
class pg_connection {
 public:
  explicit pg_connection(std::string const& conninfo);
  pg_result run(std::string const& sql);
  void prepare(char const* name, char const* sql);
  /// A statement that was prepared; all values are texts.
  pg_result execute(char const* name, std::span<char const* const> values);
  PGconn* get() const noexcept { return connection_.get(); }

 private:
  pg_result checked(PGresult*) const;
  std::unique_ptr<PGconn, end_of_libpq> connection_;
};

}  // namespace rowlock::bench
