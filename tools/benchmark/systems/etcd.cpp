// etcd, by its JSON gateway: no Debian has a client library for C++. A key that is put if it is not there,
// and deleted; and, for waiting, etcd's own Lock. Both are bound to a lease of the process', as its
// documentation has it.
#include "systems/system.hpp"

#ifdef ROWLOCK_BENCH_CURL
#include <curl/curl.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace rowlock::bench {
namespace {

using nlohmann::json;

struct end_of_curl {
  void operator()(CURL* c) const noexcept { ::curl_easy_cleanup(c); }
  void operator()(curl_slist* l) const noexcept { ::curl_slist_free_all(l); }
};

/// Keys and values are base64 there.
std::string base64(std::string_view text) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = (bits << 8U) | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= text.size() ? letters[(bits >> (18 - 6 * j)) & 63U] : '=';
  }
  return out;
}

/// A connection that is kept open.
class etcd_connection {
 public:
  explicit etcd_connection(std::string address)
      : address_(std::move(address)),
        headers_(::curl_slist_append(nullptr, "Content-Type: application/json")),
        curl_(::curl_easy_init()) {
    ::curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers_.get());
    ::curl_easy_setopt(curl_.get(), CURLOPT_WRITEFUNCTION, collect);
    ::curl_easy_setopt(curl_.get(), CURLOPT_WRITEDATA, &answer_);
    ::curl_easy_setopt(curl_.get(), CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(curl_.get(), CURLOPT_PROXY, "");
    ::curl_easy_setopt(curl_.get(), CURLOPT_NOPROGRESS, 0L);
    ::curl_easy_setopt(curl_.get(), CURLOPT_XFERINFOFUNCTION, stopped);
  }

  /// Nothing if `stop` came first.
  json ask(std::string const& path, json const& question, std::stop_token const* stop = nullptr) {
    auto const url = "http://" + address_ + path;
    auto const body = question.dump();
    answer_.clear();
    ::curl_easy_setopt(curl_.get(), CURLOPT_URL, url.c_str());
    ::curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDS, body.c_str());
    ::curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    ::curl_easy_setopt(curl_.get(), CURLOPT_XFERINFODATA, stop);
    auto const code = ::curl_easy_perform(curl_.get());
    if (code == CURLE_ABORTED_BY_CALLBACK) return {};
    if (code != CURLE_OK) throw peer_error(fmt::format("etcd: {}", ::curl_easy_strerror(code)));
    auto got = json::parse(answer_);
    if (got.contains("error")) throw peer_error("etcd: " + got["error"].dump());
    return got;
  }

 private:
  static std::size_t collect(char* data, std::size_t one, std::size_t count, void* to) {
    static_cast<std::string*>(to)->append(data, one * count);
    return one * count;
  }
  static int stopped(void* token, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return token != nullptr && static_cast<std::stop_token const*>(token)->stop_requested() ? 1 : 0;
  }

  std::string address_;
  std::unique_ptr<curl_slist, end_of_curl> headers_;
  std::string answer_;
  std::unique_ptr<CURL, end_of_curl> curl_;
};

class etcd_client : public client {
 public:
  etcd_client(std::string const& address, std::string lease, bool waits)
      : connection_(address), lease_(std::move(lease)), waits_(waits) {}

  bool take(std::string const& name, std::stop_token const& stop) override {
    if (waits_) {
      auto const got =
          connection_.ask("/v3/lock/lock", {{"name", base64(name)}, {"lease", own_lease()}}, &stop);
      if (got.is_null()) return false;
      key_ = got.at("key");
      return true;
    }
    key_ = base64(name);
    auto const got = connection_.ask(
        "/v3/kv/txn",
        {{"compare", {{{"key", key_}, {"target", "CREATE"}, {"create_revision", "0"}}}},
         {"success", {{{"request_put", {{"key", key_}, {"value", base64("owner")}, {"lease", lease_}}}}}}});
    if (!got.value("succeeded", false)) throw peer_error("etcd: somebody else has the key");
    return true;
  }
  void give_back() override {
    if (waits_)
      connection_.ask("/v3/lock/unlock", {{"key", key_}});
    else
      connection_.ask("/v3/kv/deleterange", {{"key", key_}});
  }

 private:
  /// Lock knows owners by their leases: threads that compete need one each.
  std::string const& own_lease() {
    if (own_lease_.empty())
      own_lease_ = connection_.ask("/v3/lease/grant", {{"TTL", "60"}}).at("ID").get<std::string>();
    return own_lease_;
  }

  etcd_connection connection_;
  std::string lease_;
  std::string own_lease_;
  bool waits_;
  std::string key_;
};

class etcd_session : public session {
 public:
  etcd_session(std::string address, bool waits) : address_(std::move(address)), waits_(waits) {
    if (!waits_)
      lease_ = etcd_connection(address_).ask("/v3/lease/grant", {{"TTL", "60"}}).at("ID").get<std::string>();
  }
  std::unique_ptr<client> new_client() override {
    return std::make_unique<etcd_client>(address_, lease_, waits_);
  }

 private:
  std::string address_;
  bool waits_;
  std::string lease_;
};

opener etcd_opener(bool waits) {
  return [waits](std::string const& address) { return std::make_unique<etcd_session>(address, waits); };
}

}  // namespace
}  // namespace rowlock::bench

#else

namespace rowlock::bench {
namespace {

opener etcd_opener(bool) { return {}; }

}  // namespace
}  // namespace rowlock::bench

#endif

namespace rowlock::bench {

void add_etcd(std::vector<system_entry>& all) {
  all.push_back({"etcd", "etcd, by JSON", "etcd", etcd_opener(false)});
  all.push_back({"etcd-lock", "etcd, its own Lock, by JSON", "etcd", etcd_opener(true)});
}

}  // namespace rowlock::bench
