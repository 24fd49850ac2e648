#include "backend/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <rowlock/error.hpp>

#include "base/never_destroyed.hpp"

namespace rowlock::backend {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::string text_of(value const& v) {
  if (is_null(v)) return {};
  if (auto const* number = std::get_if<std::int64_t>(&v)) return std::to_string(*number);
  return as_text(v);
}

}  // namespace

settings::settings(result const& r) {
  for (auto const& columns : r.rows) values_[lower(text_of(columns.at(0)))] = text_of(columns.at(1));
}

std::string const& settings::operator[](std::string const& name) const {
  static auto const& none = base::never_destroyed<std::string>();
  auto const found = values_.find(name);
  return found == values_.end() ? none : found->second;
}

std::string const& settings::any(std::initializer_list<char const*> names) const {
  auto const found = std::find_if(names.begin(), names.end(), [this](char const* n) { return has(n); });
  return (*this)[found == names.end() ? "" : *found];
}

bool settings::on(std::string const& name) const {
  auto const said = lower((*this)[name]);
  return !said.empty() && said != "off" && said != "0" && said != "no" && said != "false";
}

std::int64_t settings::number(std::string const& name) const {
  auto const& text = (*this)[name];
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

examiner::~examiner() = default;

opinion tls(session_facts const& facts, std::string const& protocol, std::string const& remedy) {
  if (!protocol.empty()) return {verdict::ok, fmt::format("encrypted, {}", protocol)};
  if (!facts.leaves_machine)
    return {verdict::unknown, "not encrypted; whether it leaves this machine is not known", remedy};
  if (!*facts.leaves_machine)
    return {verdict::ok, "not encrypted, and need not be: the connection does not leave this machine"};
  return {verdict::warning,
          "not encrypted: whoever is on the way can read names and notes, and take part in the conversation",
          remedy};
}

std::optional<opinion> refused_writes(examiner& x) {
  try {
    x.ask("doctor_may_update_locks");
  } catch (error const& e) {
    if (e.reason() == errc::read_only)
      return opinion{verdict::error, x.words(e), "Connect to one that takes writes: the primary."};
    if (e.reason() != errc::access_denied && e.reason() != errc::schema_missing) throw;
  }
  return std::nullopt;
}

std::string list_on(settings const& s, std::initializer_list<char const*> names) {
  std::string out;
  for (auto const* name : names)
    if (s.on(name)) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, s[name]);
  return out;
}

}  // namespace rowlock::backend
