#pragma once
// A server that answers as the bytes of a run say: well, not at all, or with what no server of ours says.

#include <memory>
#include <mutex>
#include <rowlock/error.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "fuzz/bytes.hpp"

namespace rowlock::fuzz {

/// What one server says, to all of its sessions. Thread-safe. Each answer takes a byte, and those that are no
/// good one more for each thing that is wrong with them. The last three bits of the first one:
///   0 one good row        1 no row              2 three good rows     3 a good row, and nothing was changed
///   4 a cell is wrong     5 cells are missing   6 anything            7 an error
/// The fourth bit: what is held has expired. When there are no bytes left, the server is gone.
class hostile_server {
 public:
  hostile_server(std::string all, std::string strategy)
      : all_(std::move(all)),
        bytes_({reinterpret_cast<std::uint8_t const*>(all_.data()), all_.size()}),
        strategy_(std::move(strategy)) {}

  backend::result answer(backend::statement const&, std::span<backend::value const> parameters);
  /// To a call that returns nothing: only whether it is an error.
  void agree(char const* what);
  std::size_t choose(std::size_t n);
  std::optional<std::string> schema(backend::dialect const&);

  /// When the server has refused something: for what would try again after a while.
  std::stop_token gave_up() const noexcept { return gave_up_.get_token(); }

 private:
  backend::value odd_value();
  backend::value good_value(char kind, std::span<backend::value const> parameters, bool expired) const;
  backend::row good_row(std::string_view kinds, std::span<backend::value const> parameters,
                        bool expired) const;
  std::vector<backend::row> good_rows(std::string const& statement,
                                      std::span<backend::value const> parameters, std::size_t how);
  void spoil(std::string const& statement, backend::row&);
  backend::result anything();
  [[noreturn]] void refuse(std::string const& statement);
  std::uint8_t next(std::string const& statement);
  void remember_term(std::string const& statement, std::span<backend::value const> parameters);

  mutable std::mutex mutex_;
  std::string const all_;
  bytes bytes_;
  std::string const strategy_;
  std::string term_ = "term";
  std::int64_t version_ = 8;
  int answers_ = 0;
  std::stop_source gave_up_;
};

/// Its address.
class hostile_source final : public backend::source {
 public:
  hostile_source(std::shared_ptr<hostile_server> server, backend::dialect const& dialect)
      : server_(std::move(server)), dialect_(dialect) {}

  std::unique_ptr<backend::connection> connect(boot_time_point) override;
  backend::dialect const& sql() const noexcept override { return dialect_; }
  std::string describe() const override { return "a hostile server"; }

 private:
  std::shared_ptr<hostile_server> server_;
  backend::dialect const& dialect_;
};

}  // namespace rowlock::fuzz
