// What a program could do on PostgreSQL without rowlock: advisory locks, and a lease in a row by libpq alone.

#include <array>
#include <type_traits>

#include "systems/databases.hpp"
#include "systems/libpq.hpp"
#include "systems/postgresql_lease.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

/// SELECT pg_advisory_lock(), SELECT pg_advisory_unlock(): two round trips, and nothing is written.
class advisory_client : public client {
 public:
  explicit advisory_client(std::string const& address) : connection_(address) {
    connection_.prepare("take", "SELECT pg_advisory_lock(hashtextextended($1, 0))");
    connection_.prepare("give", "SELECT pg_advisory_unlock(hashtextextended($1, 0))");
  }
  bool take(std::string const& name, std::stop_token const&) override {
    name_ = name;
    ask("take");
    return true;
  }
  void give_back() override { ask("give"); }

 private:
  void ask(char const* statement) {
    std::array<char const*, 1> const values{name_.c_str()};
    connection_.execute(statement, values);
  }

  pg_connection connection_;
  std::string name_;
};

class bare_postgresql_client : public client {
 public:
  explicit bare_postgresql_client(std::string const& address, bool flushed = true)
      : lease_(address, flushed) {}
  bool take(std::string const& name, std::stop_token const&) override {
    lease_.take(name);
    return true;
  }
  void give_back() override { lease_.give_back(); }

 private:
  bare_lease lease_;
};

class bare_unflushed_client : public bare_postgresql_client {
 public:
  explicit bare_unflushed_client(std::string const& address) : bare_postgresql_client(address, false) {}
};

template <class Client>
class postgresql_session : public session {
 public:
  explicit postgresql_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<Client>(address_); }

 private:
  std::string address_;
};

}  // namespace

void add_postgresql(std::vector<system_entry>& all) {
  all.push_back({"advisory", "pg_advisory_lock, libpq", "postgresql", [](std::string const& address) {
                   return std::make_unique<postgresql_session<advisory_client>>(address);
                 }});
  auto const bare = [&all]<class Client>(std::type_identity<Client>, std::string id, std::string title) {
    all.push_back(
        {std::move(id), std::move(title), "postgresql",
         [](std::string const& address) { return std::make_unique<postgresql_session<Client>>(address); },
         [](std::string const& address) { migrate(database_of("postgresql"), address); }});
  };
  bare(std::type_identity<bare_postgresql_client>{}, "bare-postgresql", "the same UPDATEs, bare libpq");
  bare(std::type_identity<bare_unflushed_client>{}, "bare-postgresql-unflushed",
       "the same UPDATEs, bare libpq, synchronous_commit = off");
}

}  // namespace rowlock::bench
