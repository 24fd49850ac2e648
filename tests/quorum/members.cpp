#include "quorum/members.hpp"

#include <atomic>
#include <cstdlib>
#include <rowlock/error.hpp>

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"

namespace rowlock::test {

namespace {

std::unique_ptr<fixture> on_mysql_like() {
  if (std::getenv("ROWLOCK_TEST_MARIADB") != nullptr) return std::make_unique<mariadb_fixture>();
  return std::make_unique<mysql_fixture>();
}

}  // namespace

three_members::three_members(bool made)
    : mysql_like_(on_mysql_like()), all_{&postgresql_, mysql_like_.get(), &sqlite_} {
  if (made) program()->init(short_ttl);
}

program_of_members three_members::program(quorum_options options, std::chrono::milliseconds reply_timeout) {
  program_of_members p;
  std::vector<lock_manager*> each;
  for (auto* const f : all_) {
    auto o = f->options;
    o.reply_timeout = reply_timeout;
    p.managers.push_back(f->manager(o));
    each.push_back(p.managers.back().get());
  }
  p.quorum = std::make_unique<quorum>(each, std::move(options));
  return p;
}

quorum_mutex three_members::met_others(rowlock::quorum& of_program) {
  REQUIRE(have_rows(of_program));
  auto mine = of_program.make_mutex("x", short_term());
  // Two refusals are enough for the caller. So the third member's question may be under way when it goes on:
  // here each is asked, and has answered.
  std::atomic<std::size_t> asked = 0;
  std::atomic<std::size_t> answered = 0;
  for (auto* const f : all_) {
    f->sql("UPDATE rowlock_locks SET term = 'gone', ttl = 60000");
    f->probe->before = [&](std::string const& statement) {
      if (statement == "lock_take" && ++asked < size) eventually([&] { return asked == size; });
    };
    f->probe->after = [&](std::string const& statement) {
      if (statement == "lock_take") ++answered;
    };
  }
  CHECK_FALSE(mine.try_acquire());
  CHECK(eventually([&] { return answered == size; }));
  for (auto* const f : all_) {
    f->probe->before = nullptr;
    f->probe->after = nullptr;
    f->sql("UPDATE rowlock_locks SET term = NULL");
  }
  return mine;
}

void three_members::cut_off(std::size_t i) {
  at(i).probe->before = [](std::string const& statement) {
    throw error(errc::unreachable, "cut off by the test", statement, "", 0);
  };
}

void three_members::mend(std::size_t i) { at(i).probe->before = nullptr; }

void three_members::wipe(std::size_t i) {
  at(i).sql("DELETE FROM rowlock_locks");
  at(i).sql("DELETE FROM rowlock_quorum");
  at(i).sql("UPDATE rowlock_meta SET token_floor = 0");
}

bool three_members::are_free() {
  return eventually([this] {
    for (std::size_t i = 0; i < size; ++i)
      if (number(i, "SELECT count(*) FROM rowlock_locks WHERE term IS NULL") != 1) return false;
    return true;
  });
}

bool three_members::have_rows(rowlock::quorum& of_program) {
  {
    auto const held = of_program.make_mutex("x", short_term()).acquire();
    bool const made = eventually([this] {
      for (std::size_t i = 0; i < size; ++i)
        if (number(i, "SELECT count(*) FROM rowlock_locks") != 1) return false;
      return true;
    });
    if (!made) return false;
  }
  return are_free();
}

std::int64_t three_members::number(std::size_t i, std::string const& sql) {
  auto const c = at(i).source.implementation()->connect(boot_clock::now() + 30s);
  backend::statement const s{"number", at(i).tables().render(sql)};
  return backend::as_int(c->execute(s, {}, boot_clock::now() + 30s).rows.at(0).at(0));
}

}  // namespace rowlock::test
