#include <fmt/format.h>
#include <soci/connection-pool.h>
#include <soci/session.h>

#include <chrono>
#include <rowlock/error.hpp>
#include <rowlock/soci.hpp>
#include <utility>

#include "backend/soci/borrowed.hpp"
#include "backend/soci/seat.hpp"

namespace rowlock::backend::soci {

std::unique_ptr<seat> make_seat(::soci::session& s) {
  if (s.get_backend() == nullptr)
    throw error(errc::invalid_argument,
                "a session of the soci::connection_pool is not open: open all of them before");
  auto const name = s.get_backend_name();
  if (name == "postgresql") return make_postgresql_seat(s);
  if (name == "mysql") return make_mysql_seat(s);
  if (name == "sqlite3") return make_sqlite_seat(s);
  throw error(errc::unsupported,
              fmt::format("SOCI's back end {} can't be used: use postgresql, mysql or sqlite3", name));
}

namespace {

/// A session taken from the pool, put by at the end.
class place {
 public:
  place(std::shared_ptr<borrowed> from, boot_time_point deadline)
      : from_(std::move(from)), taken_(from_->take(deadline)) {}
  place(place&&) noexcept = default;
  place& operator=(place&&) = delete;
  ~place() { leave(); }

  /// Whether the session is still as it came from the pool.
  bool fresh() const noexcept { return !taken_.place; }
  void sit(std::unique_ptr<seat> s) noexcept { taken_.place = std::move(s); }
  ::soci::session& session() const { return from_->session_of(taken_); }
  source& native() const noexcept { return taken_.place->native(); }
  void leave() noexcept {
    if (auto const from = std::exchange(from_, nullptr)) from->put_by(std::move(taken_));
  }

 private:
  std::shared_ptr<borrowed> from_;
  borrowed::taken taken_;
};

class placed_connection final : public connection {
 public:
  placed_connection(place p, std::unique_ptr<connection> c) : place_(std::move(p)), inner_(std::move(c)) {}
  ~placed_connection() override { close(); }
  placed_connection(placed_connection const&) = delete;
  placed_connection& operator=(placed_connection const&) = delete;

  result execute(statement const& s, std::span<value const> parameters, boot_time_point deadline) override {
    return inner_->execute(s, parameters, deadline);
  }
  std::vector<result> execute_at_once(std::span<step const> steps, boot_time_point deadline) override {
    return inner_->execute_at_once(steps, deadline);
  }
  void script(std::string_view sql, boot_time_point deadline) override { inner_->script(sql, deadline); }
  result wait_for_row(statement const& s, std::span<value const> parameters, boot_time_point deadline,
                      std::chrono::nanoseconds reply_timeout, std::stop_token stop) override {
    return inner_->wait_for_row(s, parameters, deadline, reply_timeout, std::move(stop));
  }
  void expect_row_locks() const override { inner_->expect_row_locks(); }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override {
    return inner_->find_schema(table, or_new, deadline);
  }
  bool usable() const noexcept override { return inner_->usable(); }
  bool alive() override { return inner_->alive(); }
  std::string const& server_identity() const noexcept override { return inner_->server_identity(); }
  session_facts facts() const override { return inner_->facts(); }
  void close() noexcept override {
    inner_->close();
    place_.leave();  // from now on the session can have another user
  }

 private:
  place place_;
  std::unique_ptr<connection> inner_;
};

class pool_source final : public source {
 public:
  explicit pool_source(::soci::connection_pool& pool) : sessions_(std::make_shared<borrowed>(pool)) {
    using namespace std::chrono_literals;
    place const look(sessions_, boot_clock::now() + 5s);
    auto const found = make_seat(look.session());
    dialect_ = &found->native().sql();
    witness_ = found->witness();
    description_ =
        fmt::format("{} (soci::connection_pool of {})", found->native().describe(), sessions_->pool_size());
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    if (sessions_->forked())
      throw error(errc::forked, description_ + ": the pool was made before the process was forked");
    auto const now = boot_clock::now();
    if (now >= deadline) throw error(errc::unreachable, description_ + ": no time was left to connect");
    // The other half is for connecting, or for the caller's alternative: the renewer borrows a session.
    place p(sessions_, now + (deadline - now) / 2);
    if (p.fresh()) sit_down(p);
    auto made = p.native().connect(deadline);
    return std::make_unique<placed_connection>(std::move(p), std::move(made));
  }
  dialect const& sql() const noexcept override { return *dialect_; }
  std::string describe() const override { return description_; }
  bool gone(std::string const& identity) const noexcept override {
    return witness_ != nullptr && witness_->gone(identity);
  }
  bool uses_the_programs() const noexcept override { return true; }

 private:
  void sit_down(place& p) const {
    auto made = make_seat(p.session());
    if (&made->native().sql() != dialect_)
      throw error(errc::invalid_argument,
                  description_ + ": the pool's sessions lead to different kinds of databases");
    made->vacate();
    p.sit(std::move(made));
  }

  std::shared_ptr<borrowed> sessions_;
  dialect const* dialect_ = nullptr;
  std::shared_ptr<source> witness_;
  std::string description_;
};

}  // namespace
}  // namespace rowlock::backend::soci

namespace rowlock::soci {

source::source(::soci::connection_pool& pool)
    : connection_source(std::make_shared<backend::soci::pool_source>(pool)) {}

}  // namespace rowlock::soci
