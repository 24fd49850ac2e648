#include "holding/hold.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace rowlock;
using namespace rowlock::holding;
using namespace rowlock::waiting;
using namespace std::chrono_literals;

namespace {

grant_facts granted(boot_time_point sent_at, std::chrono::milliseconds ttl,
                    std::chrono::milliseconds hard_limit = 0ms) {
  grant_facts f;
  f.name = "name";
  f.term = {"term"};
  f.owner = {"host", 1, "process", 1};
  f.ttl = ttl;
  f.hard_limit = hard_limit;
  f.sent_at = sent_at;
  return f;
}

}  // namespace

TEST_CASE("trust is the ttl from before the statement was sent, less a tenth") {
  auto const sent = boot_clock::now();
  CHECK(trust_after(sent, 30s) == sent + 27s);
  CHECK(trust_after(sent, 100ms) == sent + 90ms);
  CHECK(trust_after(sent, std::chrono::hours(24 * 366)) > sent + std::chrono::hours(24 * 329));
  hold const h(granted(sent, 30s), {});
  CHECK(h.trusted_until() == sent + 27s);
  CHECK(h.valid());
  CHECK_FALSE(h.loss());
}

TEST_CASE("B35: trust never passes the hard limit, less its own margins") {
  auto const sent = boot_clock::now();
  // A fiftieth of the limit for the rates of the clocks, a tenth of the ttl for steps.
  hold h(granted(sent, 10s, 60s), {});
  CHECK(h.trusted_until() == sent + 9s);
  CHECK(h.prolong(sent + 55s, 10s));
  CHECK(h.trusted_until() == sent + 60s - 1200ms - 1s);
  CHECK(h.prolong(sent + 59s, 1h));
  CHECK(h.trusted_until() == sent + 57800ms);
  // A limit below the ttl is what the row's expiry goes by.
  hold const brief(granted(sent, 10s, 1s), {});
  CHECK(brief.trusted_until() == sent + 1s - 20ms - 100ms);
  CHECK(first_trust(brief.facts()) == brief.trusted_until());
  hold const close(granted(sent, 10s, 10s), {});
  CHECK(close.trusted_until() == sent + 8800ms);
  CHECK(first_trust(close.facts()) == close.trusted_until());
}

TEST_CASE("a renewal moves trust forward only, and not once it has ended") {
  auto const sent = boot_clock::now();
  hold h(granted(sent, 10s), {});
  CHECK(h.prolong(sent + 1s, 10s));
  CHECK(h.trusted_until() == sent + 10s);
  CHECK(h.prolong(sent, 10s));  // an older one that is answered later: not shorter
  CHECK(h.prolong(sent + 2s, 1ms));
  CHECK(h.trusted_until() == sent + 10s);

  hold late(granted(sent - 10s, 10s), {});  // trust ended a second ago
  CHECK_FALSE(late.valid());
  CHECK_FALSE(late.prolong(boot_clock::now(), 10s));
  CHECK_FALSE(late.valid());
  CHECK(late.loss() == loss_reason::suspended);  // the watchdog would have told before
}

TEST_CASE("C75: a loss has the reason of the last renewal, unless whoever looks came too late for that") {
  auto const locked = std::make_shared<trouble const>(trouble{loss_reason::row_locked, "a test's"});
  auto const sent = boot_clock::now() - 8990s;  // of 9,000 s of trust
  hold h(granted(sent, 10000s), {});
  CHECK(h.loss_details().empty());
  CHECK(h.why_expired() == loss_reason::expired);  // nothing was asked
  h.renewal_begins(boot_clock::now() - 4000s);
  CHECK(h.why_expired() == loss_reason::database_unreachable);
  CHECK(h.loss_details().find("confirmed no renewal for 400") != std::string::npos);
  h.hindered_by(locked);
  CHECK(h.why_expired() == loss_reason::row_locked);
  CHECK(h.loss_details().find("its row locked for 400") != std::string::npos);
  CHECK(h.loss_details().ends_with(" s: a test's"));
  CHECK(h.lose(h.why_expired()));
  CHECK(h.loss() == loss_reason::row_locked);
  auto const details = h.loss_details();
  CHECK(details.ends_with(" s: a test's"));

  hold late(granted(sent - 6000s, 10000s), {});  // long after its end
  late.hindered_by(locked);
  CHECK(late.loss() == loss_reason::suspended);

  hold renewed(granted(sent, 10000s), {});
  renewed.renewal_begins(sent + 1s);
  renewed.hindered_by(locked);
  CHECK(renewed.prolong(boot_clock::now(), 10000s));
  CHECK_FALSE(renewed.hindrance());
  CHECK(renewed.loss_details().empty());
}

TEST_CASE("a lease at its hard limit expired, whether or not the last renewal failed") {
  hold h(granted(boot_clock::now() - 5s, 5s, 6s), {});
  auto const why = std::make_shared<trouble const>();
  h.hindered_by(why);
  CHECK(h.loss() == loss_reason::database_unreachable);  // 4.5 s: the limit was not yet reached
  hold limited(granted(boot_clock::now() - 5s, 5s, 5s), {});
  limited.hindered_by(why);
  CHECK(limited.loss() == loss_reason::expired);
}

TEST_CASE("states: held, releasing, released") {
  hold h(granted(boot_clock::now(), 10s), {});
  CHECK(h.begin_release());
  CHECK_FALSE(h.begin_release());
  CHECK_FALSE(h.held());
  CHECK_FALSE(h.valid());
  CHECK(h.trusted_until() <= boot_clock::now());
  CHECK_FALSE(h.lose(loss_reason::expired));
  CHECK_FALSE(h.prolong(boot_clock::now(), 10s));
  CHECK_FALSE(h.loss());
  h.end_release();
  CHECK_FALSE(h.loss());
  CHECK_FALSE(h.begin_release());
}

TEST_CASE("a release that found the term gone is a loss, with that reason") {
  hold h(granted(boot_clock::now(), 10s), {});
  REQUIRE(h.begin_release());
  CHECK_FALSE(h.lose(loss_reason::expired));
  h.end_release(loss_reason::row_gone);
  CHECK(h.loss() == loss_reason::row_gone);
}

TEST_CASE("the first reason for a loss stays") {
  hold h(granted(boot_clock::now(), 10s), {});
  CHECK(h.lose(loss_reason::revoked));
  CHECK_FALSE(h.lose(loss_reason::expired));
  CHECK(h.loss() == loss_reason::revoked);
  CHECK_FALSE(h.begin_release());
  CHECK(h.loss() == loss_reason::revoked);
}

TEST_CASE("what is left of trust may be used to stop, unless somebody else has the lock") {
  hold revoked(granted(boot_clock::now(), 10s), {});
  REQUIRE(revoked.lose(loss_reason::revoked));
  CHECK(revoked.trusted_until() > boot_clock::now() + 5s);
  CHECK_FALSE(revoked.valid());
  for (auto why : {loss_reason::taken_over, loss_reason::row_gone}) {
    hold gone(granted(boot_clock::now(), 10s), {});
    REQUIRE(gone.lose(why));
    CHECK(gone.trusted_until() <= boot_clock::now());
  }
}

TEST_CASE("exactly one of many leaves the held state, and one handle is the last") {
  for (int round = 0; round < 200; ++round) {
    hold h(granted(boot_clock::now(), 10s), {});
    for (int i = 0; i < 3; ++i) REQUIRE(h.share());
    std::atomic<int> first{0};
    std::atomic<int> last{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
          if (i % 2 == 0 ? h.lose(loss_reason::taken_over) : h.begin_release()) ++first;
          if (h.unshare()) ++last;
        });
    }
    CHECK(first == 1);
    CHECK(last == 1);
  }
}

TEST_CASE("a handle whose last one is just being given back can't be shared any more") {
  hold h(granted(boot_clock::now(), 10s), {});
  REQUIRE(h.share());
  CHECK_FALSE(h.unshare());
  CHECK(h.unshare());
  CHECK_FALSE(h.share());
}

TEST_CASE("the holder that others see has the longest time that the row may last") {
  auto const sent = boot_clock::now();
  hold h(granted(sent, 30s), {});
  auto const who = h.as_holder();
  CHECK(who.expires_in > 25s);
  CHECK(who.expires_in <= 30s);
  CHECK(who.owner.same({"other", 9, "process", 1}));
}
