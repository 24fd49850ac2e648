#include "doctor/scene.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "support/changed_sql.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

std::string grants(char const* dialect) {
  std::ifstream in(source_path(fmt::format("schema/{}-grants.sql", dialect)));
  std::stringstream text;
  text << in.rdbuf();
  // The connector counts statements by their semicolons, also those in comments.
  return std::regex_replace(text.str(), std::regex("--[^\n]*"), "");
}

boot_time_point soon() { return boot_clock::now() + 20s; }

std::string line(finding const& f) {
  return fmt::format("{} {}: {} [{}]", to_string(f.result), f.check, f.why, f.remedy);
}

class spoilt_source final : public backend::source {
 public:
  spoilt_source(std::shared_ptr<backend::source> s, std::string sql)
      : inner_(std::move(s)), sql_(std::move(sql)) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    auto c = inner_->connect(deadline);
    c->script(sql_, deadline);
    return c;
  }
  backend::dialect const& sql() const noexcept override { return inner_->sql(); }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::shared_ptr<backend::source> inner_;
  std::string sql_;
};

}  // namespace

connection_source spoilt_by(std::string const& sql, connection_source const& source) {
  return connection_source(std::make_shared<spoilt_source>(source.implementation(), sql));
}

findings examined(connection_source const& source, doctor_options o) {
  return doctor(as_the_environment_has_it(source), std::move(o)).examine();
}

findings examined(std::string const& url, doctor_options o) {
  return examined(source_from_url(url), std::move(o));
}

bool looked_at(findings const& all, std::string const& check) {
  return std::any_of(all.begin(), all.end(), [&](auto const& f) { return f.check == check; });
}

finding const& found(findings const& all, std::string_view check) {
  auto const at = std::find_if(all.begin(), all.end(), [&](auto const& f) { return f.check == check; });
  if (at == all.end()) FAIL("nothing was said of " << std::string(check));
  return *at;
}

void expect(findings const& all, std::string const& check, verdict result, std::string const& why,
            std::string const& remedy) {
  auto const& f = found(all, check);
  INFO(line(f));
  CHECK(std::string(to_string(f.result)) == to_string(result));
  CHECK(f.why.find(why) != std::string::npos);
  if (remedy.empty())
    CHECK(f.remedy.empty());
  else
    CHECK(f.remedy.find(remedy) != std::string::npos);
}

void expect_healthy(findings const& all, std::vector<std::string> const& checks) {
  std::vector<std::string> names;
  for (auto const& f : all) {
    INFO(line(f));
    names.push_back(f.check);
    CHECK_FALSE(f.why.empty());
    // A client's role may not look at all of the tables.
    if (f.check == "tables" && f.result == verdict::unknown) continue;
    CHECK(f.result == verdict::ok);
    CHECK(f.remedy.empty());
  }
  CHECK(names == checks);
}

server_scene::server_scene(server_kind k, database_server::options o) : kind(k), server(k, std::move(o)) {
  migrator(source_from_url(as_admin())).up();
  if (kind == server_kind::postgresql)
    sql(grants("postgresql") +
        "CREATE ROLE app LOGIN; GRANT rowlock_locking TO app;"
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC");  // since 15 nobody has it
  else
    sql(grants("mysql") + "CREATE USER app@'%' IDENTIFIED BY 'secret'; GRANT rowlock_locking TO app@'%'; " +
        (kind == server_kind::mysql ? "SET DEFAULT ROLE rowlock_locking TO app@'%'"
                                    : "SET DEFAULT ROLE rowlock_locking FOR app@'%'"));
}

std::string server_scene::as_app() const {
  return kind == server_kind::postgresql
             ? as_admin() + " user=app"
             : std::regex_replace(as_admin(), std::regex("//[^@]*@"), "//app:secret@");
}

// As a person's session is: rowlock's own look for no tables in public.
std::unique_ptr<backend::connection> server_scene::connect() const {
  auto c = source_from_url(as_admin()).implementation()->connect(soon());
  if (kind == server_kind::postgresql) c->script("SET search_path = public", soon());
  return c;
}

void server_scene::sql(std::string const& text) const { connect()->script(text, soon()); }

std::string server_scene::value(std::string const& text) const {
  auto const r = connect()->execute({"value", text}, {}, soon());
  auto const& v = r.rows.at(0).at(0);
  auto const* number = std::get_if<std::int64_t>(&v);
  return number != nullptr ? std::to_string(*number) : backend::as_text(v);
}

void server_scene::set_for_all(std::string const& name, std::string const& wanted) const {
  sql(fmt::format("ALTER SYSTEM SET {} = '{}'", name, wanted));
  sql("SELECT pg_reload_conf()");
  auto const now = fmt::format("SELECT reset_val FROM pg_settings WHERE name = '{}'", name);
  CHECK(eventually([&] { return value(now) == wanted; }));
}

}  // namespace rowlock::test
