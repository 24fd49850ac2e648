#include "backend/postgresql/log_in_filter.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

namespace rowlock::backend::postgresql {
namespace {

// A log-in has some hundred bytes; a server's settings and a long error have some thousand.
constexpr std::size_t longest_message = 64u << 10u;
constexpr std::size_t most_bytes = 1u << 20u;
// Some twenty are sent. libpq keeps each setting that it is told, and looks through all of them at the next
// one.
constexpr int most_messages = 1'000;
// What libpq takes for an error of a server that could not even begin to talk.
constexpr std::size_t longest_error = 30'000;

constexpr char const* endless = "the server sends more and more instead of completing the log-in";

constexpr std::uint32_t ssl_request = 80877103;
constexpr std::uint32_t gss_request = 80877104;
constexpr std::uint32_t in_clear = 3;
constexpr std::uint32_t as_md5 = 5;
constexpr std::uint32_t scram_challenge = 11;
// The server decides how often the password is hashed, and nothing can stop libpq meanwhile: this many rounds
// take about a second. PostgreSQL's own number is 4096 (scram_iterations).
constexpr std::uint64_t most_rounds = 1'000'000;

std::uint32_t number_at(std::string_view text, std::size_t at) {
  std::uint32_t out = 0;
  for (char const c : text.substr(at, 4)) out = out << 8u | static_cast<unsigned char>(c);
  return out;
}

/// "r=NONCE,s=SALT,i=ROUNDS" (RFC 5802); the most that there can be if it is no number.
std::uint64_t rounds_in(std::string_view challenge) {
  auto const found = challenge.find(",i=");
  if (found == challenge.npos) return 0;  // libpq refuses it
  std::uint64_t rounds = 0;
  auto const* const begin = challenge.data() + found + 3;
  auto const [end, bad] = std::from_chars(begin, challenge.data() + challenge.size(), rounds);
  return bad == std::errc() ? rounds : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

void log_in_filter::sent(std::string_view text) {
  if (state_ != state::first_words) return;
  from_client_ += text;
  if (from_client_.front() == '\x16') {  // TLS without a request (sslnegotiation=direct)
    state_ = state::encrypted;
  } else if (from_client_.size() >= 8) {
    auto const code = number_at(from_client_, 4);
    state_ = code == ssl_request || code == gss_request ? state::asked_for_encryption : state::talking;
    from_client_.clear();
  }
}

std::string log_in_filter::received(std::string_view text) {
  total_ += text.size();
  if (total_ > most_bytes) throw log_in_refused(errc::unreachable, endless);
  if (state_ == state::encrypted || state_ == state::doomed) return std::string(text);
  from_server_ += text;
  if (state_ == state::first_words) return {};  // unasked: libpq reads it after it has said something
  if (state_ == state::asked_for_encryption && !from_server_.empty()) {
    char const answer = from_server_.front();
    if (answer == 'S' || answer == 'G') {
      state_ = state::encrypted;
      return std::exchange(from_server_, {});
    }
    if (answer == 'N') {
      state_ = state::first_words;
      // More than that would be read as if it had come encrypted, or before it was asked for.
      if (from_server_.size() > 1)
        throw log_in_refused(errc::unreachable, "the server answers before it is asked");
      return std::exchange(from_server_, {});
    }
    state_ = state::talking;  // an error
  }
  return whole_messages();
}

std::string log_in_filter::whole_messages() {
  std::string out;
  while (from_server_.size() >= 5) {
    char const type = from_server_.front();
    std::size_t const size = number_at(from_server_, 1);
    if (type == 'E' && !logged_in_ && (size < 8 || size > longest_error)) {
      state_ = state::doomed;  // libpq shows it and hangs up
      return out + std::exchange(from_server_, {});
    }
    if (size < 4 || size > longest_message)
      throw log_in_refused(errc::unreachable, "what answers there does not speak PostgreSQL's protocol");
    if (from_server_.size() < 1 + size) break;
    look_at(type, std::string_view(from_server_).substr(5, size - 4));
    out += from_server_.substr(0, 1 + size);
    from_server_.erase(0, 1 + size);
  }
  return out;
}

void log_in_filter::decrypted(std::string_view text) {
  from_server_ += text;
  (void)whole_messages();
}

void log_in_filter::look_at(char type, std::string_view body) {
  if (++messages_ > most_messages) throw log_in_refused(errc::unreachable, endless);
  if (type != 'R' || body.size() < 4) return;
  auto const method = number_at(body, 0);
  if (method == 0) logged_in_ = true;
  if (method == scram_challenge && rounds_in(body.substr(4)) > most_rounds)
    throw log_in_refused(errc::access_denied,
                         "the server wants the password hashed more than a million times "
                         "(scram_iterations): that would take longer than a connection may");
  if (method == in_clear || method == as_md5)
    throw log_in_refused(errc::access_denied, std::string("the server asks for the password ") +
                                                  (method == in_clear ? "in clear" : "as MD5") +
                                                  ", and nothing proves that it is the right server: let it "
                                                  "ask for scram-sha-256 (password_encryption, "
                                                  "a password that is set anew, pg_hba.conf), or connect "
                                                  "with sslmode=verify-full or by a Unix socket");
}

}  // namespace rowlock::backend::postgresql
