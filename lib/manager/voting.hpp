#pragma once
// Requests of a quorum to the manager of one quorum member: lib/doc/quorum.md. Calls wait for replies, for
// reply_timeout at most, and throw error.

#include <memory>
#include <string>

#include "manager/engine.hpp"
#include "strategy/quorum_member.hpp"

namespace rowlock::managing::voting {

/// Renews the term, and raises its token to the highest of all granting members. @return false if lost here
/// @throws error(errc::not_voting) if the member does not vote in that epoch. The lock is as before
bool confirm(engine&, std::shared_ptr<holding::hold> const&, fencing_token, std::string const& epoch_id,
             std::chrono::milliseconds lasts);

/// Whether an operator has revoked the term, even if it has expired since.
bool is_revoked(engine&, holding::hold const&);

strategies::member_state read(engine&, bool with_highest);
bool write(engine&, std::string const& former_epoch_id, strategies::member_record const&);
/// Later tokens are higher than this one.
void raise_tokens(engine&, fencing_token);
/// One text for all databases of a server. Known after another call.
std::string server(engine&);

}  // namespace rowlock::managing::voting
