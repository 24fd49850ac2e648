#pragma once
// What a quorum asks a manager, as one of its members: lib/doc/quorum.md.

#include <memory>
#include <string>

#include "manager/engine.hpp"
#include "strategy/quorum_member.hpp"

namespace rowlock::managing::voting {

/// All of them wait for replies, for reply_timeout at most.
/// Renews what this member has granted, and has it know the highest token of all members that have granted.
/// @return false if it is lost here
/// @throws error; errc::not_voting if it does not vote in that epoch: the lock is as it was
bool confirm(engine&, std::shared_ptr<holding::hold> const&, fencing_token, std::string const& epoch_id,
             std::chrono::milliseconds lasts);

/// Whether an operator has revoked what this member has granted, also if it has been lost by its expiry
/// since: then nobody may have looked.
bool is_revoked(engine&, holding::hold const&);

strategies::member_state read(engine&, bool with_highest);
bool write(engine&, std::string const& former_epoch_id, strategies::member_record const&);
/// No later token is as low as that.
void raise_tokens(engine&, fencing_token);
/// The same text for two databases of one server; known after the first call of the others.
std::string server(engine&);

}  // namespace rowlock::managing::voting
