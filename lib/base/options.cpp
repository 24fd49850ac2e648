#include <rowlock/options.hpp>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

char const* to_string(event_kind k) noexcept {
  switch (k) {
    case event_kind::taken:
      return "taken";
    case event_kind::refused:
      return "refused";
    case event_kind::waited:
      return "waited";
    case event_kind::renewed:
      return "renewed";
    case event_kind::lost:
      return "lost";
    case event_kind::released:
      return "released";
    case event_kind::ended:
      return "ended";
    case event_kind::error:
      return "error";
    case event_kind::quarantined:
      return "quarantined";
  }
  return "?";
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
