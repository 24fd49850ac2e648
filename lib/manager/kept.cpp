#include "manager/kept.hpp"

namespace rowlock::managing {

bool are_kept(engine& e, backend::connection& session, strategy how,
              std::span<strategies::name_and_term const> terms) {
  return e.tables.of(how).renew(session, terms, e.reply_deadline()).size() == terms.size();
}

}  // namespace rowlock::managing
