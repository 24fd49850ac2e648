// An SQLite file that does not stay what and where it was.
#include <filesystem>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

namespace fs = std::filesystem;

struct change {
  char const* what;
  void (*make)(std::string const& path);
};

constexpr change changes[]{
    {"removed", [](std::string const& path) { fs::remove(path); }},
    {"replaced by a copy of itself",
     [](std::string const& path) {
       fs::copy_file(path, path + ".copy");
       fs::rename(path + ".copy", path);
     }},
    {"renamed", [](std::string const& path) { fs::rename(path, path + ".other"); }},
    {"given a second name", [](std::string const& path) { fs::create_hard_link(path, path + ".other"); }}};

std::string path_of(fixture const& f) { return f.url().substr(std::string("sqlite:").size()); }

void lose_by(change const& c, fixture& f) {
  CAPTURE(c.what);
  auto const m = f.manager();
  // Each of them hears of it by another statement: a renewal, an extension, giving back.
  auto renewed = m->make_mutex("renewed", {.ttl = 6s}).acquire();
  auto extended = m->make_mutex("extended", {.ttl = 60s, .renew = false}).acquire();
  auto released = m->make_mutex("released", {.ttl = 60s, .renew = false}).acquire();
  REQUIRE(eventually([&] { return f.probe->executed("lock_renew") > 0; }));
  f.sql("PRAGMA wal_checkpoint(TRUNCATE)");  // the copy has all of it, terms included
  c.make(path_of(f));
  CHECK(eventually([&] { return renewed->loss_token().stop_requested(); }));
  CHECK(renewed->loss() == loss_reason::row_gone);
  CHECK_FALSE(renewed->valid());
  CHECK_FALSE(extended->extend(60s));
  CHECK(extended->loss() == loss_reason::row_gone);
  CHECK(released->release() == release_result::already_lost);
  CHECK(released->loss() == loss_reason::row_gone);
  CHECK(renewed->release() == release_result::already_lost);
}

}  // namespace

PAIRS_CASE("C1: what is held in a file that is removed, replaced or linked is lost: row gone",
           all<in_rows, on_sqlite>) {
  for (auto const& one : changes) lose_by(one, *pair.make());
}

PAIRS_CASE("C1: two managers can't hold one name by two names of the file", all<in_rows, on_sqlite>) {
  auto const path = path_of(f);
  fs::create_hard_link(path, path + ".second");
  auto const refused_at = [&](std::string const& where) {
    try {
      lock_manager m("sqlite:" + where, f.options);
      (void)m.make_mutex("x").try_acquire();
    } catch (error const& e) {
      return e.reason() == errc::unsupported;
    }
    return false;
  };
  CHECK(refused_at(path));
  CHECK(refused_at(path + ".second"));
}

PAIRS_CASE("what is held in a WAL that is removed while it is open is lost: row gone; the manager goes on",
           all<in_rows, on_sqlite>) {
  for (std::string const name : {"noticed by the holder", "noticed by another"}) {
    CAPTURE(name);
    auto const m = f.manager();
    m->connect();
    f.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    auto renewed = m->make_mutex(name, {.ttl = 9s}).acquire();
    auto released = m->make_mutex(name + ", not renewed", {.ttl = 60s, .renew = false}).acquire();
    for (auto const* end : {"-wal", "-shm"}) REQUIRE(fs::remove(path_of(f) + end));
    if (name == "noticed by another") {
      // Another manager of this process comes first, and finds sessions that have not noticed it.
      auto const other = f.manager();
      auto const theirs = other->make_mutex("other").try_acquire();
      CHECK(theirs);
    }
    CHECK(eventually([&] { return renewed->loss_token().stop_requested(); }));
    CHECK(renewed->loss() == loss_reason::row_gone);
    CHECK(released->release() == release_result::already_lost);
    auto again = m->make_mutex(name).try_acquire();
    REQUIRE(again);
    CHECK(again->release() == release_result::released);
  }
}

PAIRS_CASE("an SQLite URL may say how takes are flushed, and nothing else", all<leases, on_sqlite>) {
  for (std::string const option : {"?synchronous=normal", "?synchronous=full"}) {
    lock_manager m(f.url() + option);
    CHECK(m.make_mutex("x").try_acquire());
  }
  std::string const wrong[]{f.url() + "?synchronous=off", f.url() + "?mode=ro",
                            "sqlite::memory:?synchronous=normal"};
  for (auto const& url : wrong) {
    CAPTURE(url);
    try {
      lock_manager const m(url);
      FAIL("taken");
    } catch (error const& e) {
      CHECK(e.reason() == errc::invalid_argument);
    }
  }
  // It is a name like any other.
  try {
    lock_manager(f.url() + "?").connect();
    FAIL("found");
  } catch (error const& e) {
    CHECK(e.reason() == errc::schema_missing);
  }
}
