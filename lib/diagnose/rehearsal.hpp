#pragma once

#include <optional>
#include <rowlock/error.hpp>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::diagnose {

/// A session for a strategy's trial, within one transaction that the destructor rolls back. BEGIN, COMMIT and
/// ROLLBACK set, release or roll back to a savepoint. Statements of one transaction run one by one. `within`
/// is the caller's.
class rehearsal final : public backend::connection {
 public:
  /// Begins the transaction. @throws error
  rehearsal(backend::connection& within, backend::statement_book const&, boot_time_point deadline);
  ~rehearsal() override;

  /// The database's first refusal: later ones might say less.
  std::optional<error> const& first_refusal() const noexcept { return refused_; }

  backend::result execute(backend::statement const&, std::span<backend::value const> parameters,
                          boot_time_point deadline) override;
  std::vector<backend::result> execute_at_once(std::span<backend::step const>,
                                               boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;
  backend::result wait_for_row(backend::statement const&, std::span<backend::value const> parameters,
                               boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                               std::stop_token stop) override;
  void expect_row_locks() const override { within_.expect_row_locks(); }
  bool usable() const noexcept override { return within_.usable(); }
  std::string const& server_identity() const noexcept override { return within_.server_identity(); }
  void close() noexcept override { within_.close(); }

 private:
  backend::connection& within_;
  std::optional<error> refused_;
};

}  // namespace rowlock::diagnose
