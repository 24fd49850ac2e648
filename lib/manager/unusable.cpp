#include "manager/unusable.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/repairing.hpp"

namespace rowlock::managing {
namespace {

/// The name, if a shell reads it as one plain word.
std::string as_word(std::string const& name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
  bool const good = !name.starts_with('-') && name.find_first_not_of(plain) == name.npos;
  return good ? name : "NAME";
}

bool has_no_room(engine& e, std::string const& name) {
  try {
    auto const loan = e.pool.borrow(e.reply_deadline());
    return strategies::repairing(e.database.statements()).has_no_room(*loan, name, e.reply_deadline());
  } catch (error const&) {  // the first error says enough
    return false;
  }
}

}  // namespace

void refuse_if_unusable(engine& e, error const& refused, std::string const& name) {
  if (refused.reason() != errc::failed || !has_no_room(e, name)) return;
  throw error(
      errc::unsupported,
      fmt::format("'{}' can't be taken: its fencing token is so high that no higher one is left, as no "
                  "take leaves it. Run `rowlock repair {}` as the tables' owner",
                  name, as_word(name)));
}

}  // namespace rowlock::managing
