#include "backend/postgresql/own_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <rowlock/error.hpp>
#include <string_view>

namespace rowlock::backend::postgresql {
namespace {

struct found {
  std::size_t at = std::string::npos;
  std::size_t length = 0;
};

// ...?word=value&...
found in_url(std::string_view url, std::string_view keyword) {
  for (auto at = url.find(keyword); at != url.npos; at = url.find(keyword, at + 1))
    if (at > 0 && (url[at - 1] == '?' || url[at - 1] == '&'))
      return {at, std::min(url.find('&', at), url.size()) - at};
  return {};
}

// host=... word=value ..., but not within quotes.
found in_words(std::string_view words, std::string_view keyword) {
  bool quoted = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] == '\\') {
      ++at;
      continue;
    }
    if (words[at] == '\'') quoted = !quoted;
    bool const begins = !quoted && (at == 0 || words[at - 1] == ' ') && words.substr(at).starts_with(keyword);
    if (begins) return {at, std::min(words.find(' ', at), words.size()) - at};
  }
  return {};
}

/// Its value, which is gone from the connection string. Empty: it was not there.
std::optional<std::string> take_word(std::string& conninfo, std::string_view keyword) {
  bool const url = conninfo.starts_with("postgresql://") || conninfo.starts_with("postgres://");
  auto const word = url ? in_url(conninfo, keyword) : in_words(conninfo, keyword);
  if (word.at == std::string::npos) return std::nullopt;
  auto value = conninfo.substr(word.at + keyword.size(), word.length - keyword.size());
  conninfo.erase(word.at, word.length);
  if (url) {  // with the sign before it, or the sign after a first option
    bool const first = conninfo[word.at - 1] == '?';
    if (!first || word.at == conninfo.size())
      conninfo.erase(word.at - 1, 1);
    else
      conninfo.erase(word.at, 1);
  }
  return value;
}

error refused(std::string_view word, std::string const& value, char const* can_be) {
  return error(errc::invalid_argument,
               fmt::format("{}{} in the connection string: it can be {}", word, value, can_be));
}

}  // namespace

own_words take_own_words(std::string& conninfo) {
  own_words found;
  if (auto const value = take_word(conninfo, "pooler=")) {
    if (*value == "session")
      found.how = pooling::session;
    else if (*value == "transaction")
      found.how = pooling::transaction;
    else
      throw refused("pooler=", *value, "session or transaction");
  }
  if (auto const value = take_word(conninfo, "flush=")) {
    if (*value != "on" && *value != "off") throw refused("flush=", *value, "on or off");
    found.flushes_all = *value == "on";
  }
  return found;
}

}  // namespace rowlock::backend::postgresql
