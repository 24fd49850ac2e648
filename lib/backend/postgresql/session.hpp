#pragma once
// A session of the library's own on a PostgreSQL server.

#include <string>
#include <unordered_map>

#include "backend/backend.hpp"
#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {

class session final : public connection {
 public:
  /// Takes over a connected session and sets it up in one round trip. `where` is for messages.
  session(native_connection, std::string where, boot_time_point deadline);

  result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;
  bool usable() const noexcept override;
  bool alive() override { return !channel_.forked() && channel_.alive(); }
  std::string const& server_identity() const noexcept override { return identity_; }
  void close() noexcept override { channel_.close(); }

 private:
  struct prepared {
    std::string sql;
    std::string server_name;
  };
  /// What the loss of a reply means: before a statement was sent, nothing happened.
  enum class stake { nothing, statement };

  void set_up(boot_time_point deadline);
  void begin(std::string const& what, boot_time_point deadline);
  prepared const& prepare(statement const&, boot_time_point deadline);
  native_result run_prepared(statement const&, std::span<value const> parameters, boot_time_point deadline);
  std::vector<native_result> finish(bool sent, std::string const& what, stake, boot_time_point deadline);
  [[noreturn]] void give_up(stake, std::string const& what, std::string const& why);

  channel channel_;
  std::string where_;
  std::string identity_;
  std::unordered_map<std::string, prepared> prepared_;
  unsigned prepared_count_ = 0;
};

}  // namespace rowlock::backend::postgresql
