#include "manager/server_wait.hpp"

namespace rowlock::managing {

std::variant<server_grant, strategies::refused> wait_in_server(
    engine& e, strategies::locking_strategy const& strategy, strategies::take_request what,
    std::optional<boot_time_point> deadline, std::stop_token const& stop, boot_time_point& sent_at) {
  auto const place_by = deadline.value_or(boot_time_point::max());
  for (;;) {
    auto session = e.session_pool.borrow(e.reply_deadline(), stop, place_by);
    std::stop_source give_way;  // by the caller, or because other calls need the session
    std::stop_callback const forward(stop, [&give_way] { give_way.request_stop(); });
    strategies::server_wait const wait{!deadline, give_way.get_token(), e.options.reply_timeout,
                                       [&e] { return e.database.open(e.reply_deadline()); }};
    what.wait = &wait;
    auto came = [&] {
      std::optional<sessions::connection_pool::waiting> turn;
      if (deadline) turn.emplace(e.session_pool, give_way);
      return strategy.take(*session, what, {}, deadline.value_or(e.reply_deadline()), sent_at);
    }();
    if (auto const* won = std::get_if<strategies::granted>(&came))
      return server_grant{{std::move(session), won->long_unused}, won->token};
    bool const over = !deadline || boot_clock::now() >= *deadline;
    if (give_way.stop_requested() && !stop.stop_requested() && !over) continue;
    return std::get<strategies::refused>(std::move(came));
  }
}

}  // namespace rowlock::managing
