#include "holder.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "duration.hpp"
#include "text.hpp"

namespace rowlock::tool {

std::string owner_of(holder_info const& h) {
  auto const& o = h.owner;
  if (traits(h.strategy).owns_session) {
    if (o.pid == 0) return "a database session";
    return fmt::format("database session {}{}", o.pid, o.host.empty() ? "" : " from " + o.host);
  }
  return o.is_explicit() && !o.process.empty() ? fmt::format("{} ({} pid {})", o.process, o.host, o.pid)
                                               : fmt::format("{} pid {}", o.host, o.pid);
}

std::string since(holder_info const& h) {
  return h.acquired_at.time_since_epoch().count() == 0 ? "" : utc(h.acquired_at);
}

std::string describe(holder_info const& h) {
  auto const how_long =
      !traits(h.strategy).has_expiry
          ? std::string("until its connection ends")
          : fmt::format("for {} more at most unless it is renewed",
                        format_duration(std::max(h.expires_in, std::chrono::milliseconds{0})));
  auto const from = since(h);
  return fmt::format("{}{}, {}{}{}", owner_of(h), from.empty() ? "" : " since " + from, how_long,
                     h.revoked ? "; the holder was asked to give it back" : "",
                     h.note.empty() ? "" : fmt::format(" ({})", shortened(h.note)));
}

char const* state_of(lock_info const& lock) noexcept {
  if (!lock.unknown.empty()) return "unknown";
  if (lock.holder.done) return lock.holder.expires_in.count() > 0 ? "done" : "expired";
  if (!lock.held) return "idle";
  if (traits(lock.holder.strategy).has_expiry && lock.holder.expires_in.count() <= 0) return "expired";
  return lock.holder.revoked ? "revoked" : "held";
}

namespace {

nlohmann::ordered_json waiters_to_json(lock_info const& lock) {
  auto list = nlohmann::ordered_json::array();
  for (auto const& w : lock.waiters)
    list.push_back({{"session", w.session}, {"host", w.host}, {"application", w.application}});
  return list;
}

// The same members, null.
nlohmann::ordered_json unknown_to_json(lock_info const& lock) {
  return {{"name", lock.name},      {"state", state_of(lock)},  {"strategy", nullptr}, {"owner", nullptr},
          {"acquired_at", nullptr}, {"expires_in_ms", nullptr}, {"token", nullptr},    {"units", nullptr},
          {"limit", nullptr},       {"term", nullptr},          {"revoked", nullptr},  {"note", nullptr},
          {"waiting", nullptr},     {"waiters", nullptr},       {"why", lock.unknown}};
}

}  // namespace

nlohmann::ordered_json to_json(lock_info const& lock) {
  if (!lock.unknown.empty()) return unknown_to_json(lock);
  auto const& h = lock.holder;
  return {{"name", lock.name},
          {"state", state_of(lock)},
          {"strategy", to_string(h.strategy)},
          {"owner",
           {{"host", h.owner.host},
            {"pid", h.owner.pid},
            {"process", h.owner.process},
            {"thread", h.owner.thread}}},
          {"acquired_at",
           since(h).empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(iso_utc(h.acquired_at))},
          {"expires_in_ms", traits(h.strategy).has_expiry ? nlohmann::ordered_json(h.expires_in.count())
                                                          : nlohmann::ordered_json()},
          {"token", h.token.value},
          {"units", h.units > 0 ? nlohmann::ordered_json(h.units) : nlohmann::ordered_json()},
          {"limit", h.limit > 0 ? nlohmann::ordered_json(h.limit) : nlohmann::ordered_json()},
          {"term", lock.term.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(lock.term.value)},
          {"revoked", h.revoked},
          {"note", h.note},
          {"waiting", lock.waiting ? nlohmann::ordered_json(*lock.waiting) : nlohmann::ordered_json()},
          {"waiters", lock.waiting ? waiters_to_json(lock) : nlohmann::ordered_json()}};
}

}  // namespace rowlock::tool
