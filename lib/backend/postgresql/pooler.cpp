#include "backend/postgresql/pooler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <string_view>

namespace rowlock::backend::postgresql {
namespace {

constexpr std::string_view keyword = "pooler=";

struct found {
  std::size_t at = std::string::npos;
  std::size_t length = 0;
};

// ...?pooler=session&...
found in_url(std::string_view url) {
  for (auto at = url.find(keyword); at != url.npos; at = url.find(keyword, at + 1))
    if (at > 0 && (url[at - 1] == '?' || url[at - 1] == '&'))
      return {at, std::min(url.find('&', at), url.size()) - at};
  return {};
}

// host=... pooler=session ..., but not within quotes.
found in_words(std::string_view words) {
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

}  // namespace

pooling take_pooler(std::string& conninfo) {
  bool const url = conninfo.starts_with("postgresql://") || conninfo.starts_with("postgres://");
  auto const word = url ? in_url(conninfo) : in_words(conninfo);
  if (word.at == std::string::npos) return pooling::detect;
  auto const value = conninfo.substr(word.at + keyword.size(), word.length - keyword.size());
  conninfo.erase(word.at, word.length);
  if (url) {  // with the sign before it, or the sign after a first option
    bool const first = conninfo[word.at - 1] == '?';
    if (!first || word.at == conninfo.size())
      conninfo.erase(word.at - 1, 1);
    else
      conninfo.erase(word.at, 1);
  }
  if (value == "session") return pooling::session;
  if (value == "transaction") return pooling::transaction;
  throw error(errc::invalid_argument,
              fmt::format("pooler={} in the connection string: it can be session or transaction", value));
}

}  // namespace rowlock::backend::postgresql
