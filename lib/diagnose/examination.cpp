#include "diagnose/examination.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <rowlock/migrator.hpp>
#include <utility>

#include "base/text.hpp"
#include "base/way_out.hpp"
#include "diagnose/checks.hpp"

namespace rowlock::diagnose {
namespace {

manager_options tables(doctor_options const& o) {
  manager_options m;
  m.table_prefix = o.table_prefix;
  m.schema = o.schema;
  return m;
}

// Empty where a file has several remedies: then the error's message names them.
char const* file_remedy(errc reason) {
  switch (reason) {
    case errc::unreachable:
    case errc::in_doubt:
      return "Is the path right, and is its file system there and whole?";
    case errc::schema_missing:
      return "rowlock migrate up makes the file and its tables.";
    case errc::storage_full:
      return "Make room on its file system, or raise the limit that is named.";
    case errc::access_denied:
    case errc::read_only:
      return "Let this user read and write the file and its folder.";
    default:
      return "";
  }
}

char const* connection_remedy(error const& e) {
  if (auto const known = base::way_out_of(e.what())) return *known;
  switch (e.reason()) {
    case errc::unreachable:
    case errc::in_doubt:
      return "Is the server running, is the address right, and is there no firewall in between?";
    case errc::access_denied:
      return "Give it a user who may log in, and that user's password.";
    case errc::too_many_connections:
      return "Raise the server's max_connections, or the role's limit, or let others use fewer.";
    case errc::schema_missing:
      return "Create the database, then: rowlock migrate up";
    default:
      return "";
  }
}

}  // namespace

examination::examination(std::shared_ptr<backend::source> source, doctor_options const& options)
    : source_(std::move(source)), options_(options), database_(source_, tables(options)) {}

std::string examination::words(error const& e) const {
  auto text = base::plain_message(e);
  auto const where = source_->describe();
  if (!text.starts_with(where)) return text;
  text.erase(0, where.size());
  return text.substr(std::min(text.find_first_not_of(": "), text.size()));
}

backend::connection& examination::session() {
  // After a failed connect the remaining checks do not try again, because each would wait.
  if (lost_) throw *lost_;
  if (session_ && session_->usable()) return *session_;
  session_.reset();
  try {
    session_ = source_->connect(deadline());
  } catch (error const& e) {
    lost_ = e;
    throw;
  }
  return *session_;
}

backend::result examination::ask_on(backend::connection& c, std::string_view statement,
                                    std::vector<backend::value> const& parameters) {
  return c.execute(statements().at(statement), parameters, deadline());
}

backend::settings const& examination::known(std::string const& statement) {
  auto const found = known_.find(statement);
  if (found != known_.end()) return found->second;
  return known_[statement] = backend::settings(ask(statement));
}

std::optional<backend::row> examination::table(std::string const& what) {
  auto const r = ask("doctor_tables", {schema_of_tables(), options_.table_prefix + what});
  if (r.rows.empty()) return std::nullopt;
  return r.rows[0];
}

// Reads no row, and takes no lock that rowlock's statements would wait for.
bool examination::is_missing(std::string const& what) {
  auto const table = database_.tables().table(what);
  if (!ask("migrate_columns", {table}).rows.empty()) return false;
  if (!source_->sql().catalog_hides) return true;
  try {
    session().script(fmt::format("SELECT * FROM {} LIMIT 0", table), deadline());
    return false;
  } catch (error const& e) {
    if (e.reason() == errc::schema_missing) return true;
    if (e.reason() == errc::access_denied) return false;
    throw;
  }
}

namespace {

std::optional<opinion> (*common(std::string_view name))(examination&) {
  constexpr std::array<std::pair<std::string_view, std::optional<opinion> (*)(examination&)>, 9> all{
      {{"schema", schema},
       {"grants", grants},
       {"clock", clock},
       {"keepalive", keepalive},
       {"waiting", waiting},
       {"limits", limits},
       {"quarantine", quarantine},
       {"takes", takes},
       {"tables", as_migrated}}};
  auto const found = std::find_if(all.begin(), all.end(), [&](auto const& one) { return one.first == name; });
  if (found == all.end()) throw error(errc::failed, fmt::format("there is no check {}", name));
  return found->second;
}

}  // namespace

opinion examination::undecided(error const& e) const {
  auto const why = words(e);
  switch (e.reason()) {
    case errc::access_denied:
      return {verdict::unknown, "needs a privilege that this role lacks: " + why, ""};
    case errc::schema_missing:
      return {verdict::unknown, "needs rowlock's tables: " + why, ""};
    case errc::row_locked:
      return {verdict::unknown, "was kept waiting: " + why, "Look again later."};
    default:
      return {verdict::unknown, why, ""};
  }
}

std::optional<opinion> examination::look(backend::named_check const& one) {
  try {
    return one.look ? one.look(*this) : common(one.name)(*this);
  } catch (error const& e) {
    return undecided(e);
  } catch (std::exception const& e) {
    return opinion{verdict::unknown, e.what(), ""};
  }
}

std::vector<std::string> examination::strangers(std::string const& schema, bool unreadable) {
  std::vector<std::string> out;
  auto const add = [&](backend::value const& name, std::string const& what) {
    out.push_back(fmt::format("{}{}{} {}", schema, schema.empty() ? "" : ".", backend::as_text(name), what));
  };
  for (auto const& row : ask("meta_views", {schema, options_.table_prefix}).rows)
    add(row.at(0), "is not an ordinary table");
  if (unreadable) return out;
  for (auto const& row : ask("migrate_strangers", {schema, options_.table_prefix, std::int64_t{0}}).rows)
    add(row.at(0), backend::as_text(row.at(1)));
  return out;
}

std::string examination::schema_found() {
  auto schema = schema_of_tables();
  if (!schema.empty()) return schema;
  return session().find_schema(options_.table_prefix + "meta", false, deadline()).value_or("");
}

bool examination::has_strangers() { return !strangers(schema_found(), false).empty(); }

std::optional<opinion> examination::not_tables() try {
  auto const bad = strangers(schema_found(), true);
  if (bad.empty()) return std::nullopt;
  return opinion{verdict::error,
                 fmt::format("{}: nothing more is looked at, because reading it may run functions with this "
                             "role's rights",
                             fmt::join(bad, "; ")),
                 "Drop it, or name rowlock's schema (--schema)."};
} catch (error const&) {
  return std::nullopt;  // each check reports for itself why it can't be made
}

std::vector<std::string> examination::validate() {
  migrator_options o;
  o.table_prefix = options_.table_prefix;
  o.schema = options_.schema;
  o.timeout = options_.reply_timeout;
  return migrator(connection_source(source_), o).validate();
}

std::optional<old_snapshot> examination::oldest_snapshot() {
  auto const& checks = source_->sql().checks;
  if (std::none_of(checks.begin(), checks.end(), [](auto const& one) { return one.name == "snapshots"; }))
    return std::nullopt;
  auto const row = ask("doctor_snapshots").rows.at(0);
  old_snapshot oldest;
  if (backend::is_null(row.at(0))) return oldest;
  oldest.whose = backend::as_text(row.at(0));
  if (!backend::is_null(row.at(1))) oldest.age = std::chrono::seconds(backend::as_int(row.at(1)));
  oldest.transactions = backend::as_int(row.at(2));
  return oldest;
}

std::vector<finding> examination::run() {
  try {
    session();
  } catch (error const& e) {
    auto const* remedy = source_->sql().is_file ? file_remedy(e.reason()) : connection_remedy(e);
    return {{"connection", verdict::error, base::plain_message(e), remedy}};
  }
  std::vector<finding> all{{"connection", verdict::ok, source_->describe(), ""}};
  if (auto const found = not_tables()) {
    all.push_back({"schema", found->result, found->why, found->remedy});
    return all;
  }
  std::vector<backend::named_check> checks(source_->sql().checks.begin(), source_->sql().checks.end());
  checks.insert(checks.end(), {{"quarantine"}, {"takes"}, {"tables"}});
  for (auto const& one : checks)
    if (auto const found = look(one)) all.push_back({one.name, found->result, found->why, found->remedy});
  session_.reset();
  return all;
}

}  // namespace rowlock::diagnose
