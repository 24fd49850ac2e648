// What is done to a cluster's servers: the orders that they get, and how clients come to them.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <rowlock/rowlock.hpp>
#include <string>

#include "nemesis.hpp"
#include "run.hpp"
#include "support/support.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

std::string text_of(std::string const& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_possible(std::string const& name, options const& o) {
  auto const& all = nemeses();
  auto const at = std::find_if(all.begin(), all.end(), [&](nemesis_name const& n) { return n.name == name; });
  REQUIRE(at != all.end());
  return at->possible(o);
}

}  // namespace

TEST_CASE(
    "torture: servers of a cluster are broken one at a time, and mended before the next; each has clients") {
  test::scratch_folder const folder;
  auto const histories = std::filesystem::path(folder.file("histories"));
  std::filesystem::create_directory(histories);
  options o;
  o.db = "sqlite:" + folder.file("locks.db");
  o.nodes = {o.db, o.db + "?synchronous=full"};
  o.server = "echo >>" + folder.file("orders");
  o.ttl = 100ms;
  o.duration = 8s;
  o.seed = 3;
  o.nemeses = {"node-kill", "node-stop", "node-cut"};
  o.connect = [&](std::string const& url) {
    std::ofstream(folder.file(url == o.db ? "first" : "second")) << "was used";
    return source_from_url(url);
  };
  auto const v = torture(o, histories, [](std::string const&) {});
  CHECK(v.acquisitions > 0);
  auto const orders = text_of(folder.file("orders"));
  CAPTURE(orders);
  CHECK(std::regex_match(orders, std::regex("((kill|cut) [12]\nmend\n|pause ([12])\nresume \\3\nmend\n)+")));
  // This seed draws all of them in the first three.
  for (auto const* one : {"kill", "pause", "cut", "1", "2"}) CHECK(orders.find(one) != orders.npos);
  CHECK(std::filesystem::exists(folder.file("first")));
  CHECK(std::filesystem::exists(folder.file("second")));
}

TEST_CASE("torture: what breaks a single server is not for a cluster, nor the other way round") {
  options o;
  o.db = "sqlite:unused";
  CHECK(!is_possible("node-kill", o));
  CHECK(!is_possible("server-kill", o));
  o.server = "true";
  CHECK(!is_possible("node-kill", o));
  CHECK(is_possible("server-kill", o));
  o.nodes = {o.db, o.db};
  CHECK(is_possible("node-kill", o));
  CHECK(!is_possible("server-kill", o));
}

}  // namespace rowlock::torture
