#include <fmt/format.h>

#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "backend/schemes.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

backend::scheme const& known(std::string_view url) {
  if (auto const* found = backend::scheme_of(url)) return *found;
  std::string examples;
  for (auto const& one : backend::schemes()) examples += fmt::format("{}, ", one.example);
  // The text is not echoed: it might contain a password.
  throw error(
      errc::invalid_argument,
      fmt::format(
          "rowlock does not know this kind of database URL; it knows {}or a libpq keyword string such as "
          "'host=db dbname=app'",
          examples));
}

// A private database (in memory) is new: only this manager can migrate it.
connection_source ready_source(std::string_view url, manager_options const& options) {
  auto source = source_from_url(url);
  if (source.implementation()->is_private())
    migrator(source, {.table_prefix = options.table_prefix, .schema = options.schema}).up();
  return source;
}

}  // namespace

connection_source source_from_url(std::string_view url) {
  auto const& its = known(url);
  if (its.open == nullptr)
    throw error(errc::unsupported, fmt::format("this build has no {} back end", its.back_end));
  return its.open(std::string(url));
}

url_info describe_url(std::string_view url) {
  auto const& its = known(url);
  return {.back_end = its.back_end,
          .is_file = its.is_file,
          .has_password = backend::has_password(its, url),
          .takes_password_file = its.takes_password_file,
          .passwords = its.passwords};
}

std::vector<back_end> back_ends() {
  std::vector<back_end> built;
  for (auto const& one : backend::schemes())
    if (one.open != nullptr) built.push_back({one.back_end, one.example});
  return built;
}

// Braces evaluate from left to right, so that the options are moved last.
lock_manager::lock_manager(std::string_view url, manager_options options)
    : lock_manager{ready_source(url, options), std::move(options)} {}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
